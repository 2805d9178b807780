"""Times from a file: JSON, CSV, JSON lines, Parquet; exact to a microsecond, and checked."""

import json
from functools import partial

import pyarrow
import pyarrow.parquet
import pytest

from headrace import CameraTimes, MomentTable, NuScenes

US = [1532402927612460, 1532402927695794, 1532402927779128]
SECONDS = [each / 1e6 for each in US]


def found(path, **options):
    return CameraTimes.read(path, **options).of_frames("a", "front", 3).tolist()


def write(path, text):
    path.write_text(text)
    return path


def table(head, rows):
    return "\n".join([head, *(",".join(map(str, row)) for row in rows)]) + "\n"


def test_json_holds_lists_of_seconds(tmp_path):
    for name, times, unit in (("times", SECONDS, None), ("us", US, "us")):
        path = write(tmp_path / f"{name}.json", json.dumps({"a": {"front": times}}))
        assert found(path, unit=unit) == SECONDS


@pytest.mark.parametrize(
    ("head", "scale", "options"),
    [
        ("clip,camera,seconds", 10**-6, {}),
        ("clip,camera,timestamp_us", 1, {}),
        ("scene,channel,microseconds", 1, {}),
        ("clip,camera,timestamp_ns", 1000, {}),
        ("clip,camera,timestamp", 1, {"unit": "us"}),
    ],
)
def test_a_table_says_its_unit_by_the_name_of_its_column_or_is_told(tmp_path, head, scale, options):
    rows = [("a", "front", f"{each / 1e6:.6f}" if scale < 1 else each * scale) for each in US]
    assert found(write(tmp_path / "times.csv", table(head, rows)), **options) == SECONDS


def test_rows_of_cameras_may_alternate_and_frames_say_their_order(tmp_path):
    rows = [("a", name, frame, US[frame]) for frame in (2, 0, 1) for name in ("front", "back")]
    path = write(tmp_path / "times.csv", table("clip,camera,frame,timestamp_us", rows))
    assert found(path) == SECONDS
    assert CameraTimes.read(path).clocks == {"front", "back"}


def test_parquet_and_json_lines_are_read(tmp_path):
    rows = [{"clip": "a", "camera": "front", "timestamp_us": each, "other": 1} for each in US]
    lines = write(tmp_path / "times.jsonl", "\n".join(map(json.dumps, rows)))
    assert found(lines) == SECONDS
    path = tmp_path / "times.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    assert found(path) == SECONDS


TABLES = [
    "",
    "clip,camera,seconds\n",
    "clip,seconds\na,1\n",
    "clip,camera\na,b\n",
    "clip,camera,seconds,timestamp_us\na,b,1,1\n",
    "clip,camera,timestamp\na,front,1\n",
    "clip,camera,seconds\na,b,soon\n",
    "clip,camera,seconds\na,b,nan\n",
    "clip,camera,seconds\na,b,1e999999999\n",
    "clip,camera,seconds\na,b,\n",
    "clip,camera,seconds\na,,1\n",
    "clip,camera,seconds\na,b,2\na,b,1\n",
    "clip,camera,frame,seconds\na,b,0,2\na,b,0,1\n",
    "clip,camera,frame,seconds\na,b,0,2\na,b,2,3\n",
    "clip,camera,frame,seconds\na,b,x,2\n",
]
OBJECTS = [
    *("{", "[]", "{}", '{"a": 3}', '{"a": {"b": 3}}', '{"a": {"b": []}}', '{"a": {"b": [true]}}'),
    *('{"a": {"b": [NaN]}}', '{"a": {"b": [[1]]}}', "[" * 100_000),
]
VALUES = [[1], {}, {"a": [1.0]}, {"a": {"front": 1.0}}]


def test_what_are_no_times_is_refused(tmp_path, refused):
    def read(text, kind):
        return CameraTimes.read(write(tmp_path / f"times.{kind}", text))

    times = CameraTimes.of({"a": {"front": SECONDS}})
    calls = {
        **{repr(each): partial(read, each, "csv") for each in TABLES},
        **{each[:30]: partial(read, each, "json") for each in OBJECTS},
        **{f"times of {each}": partial(CameraTimes.of, each) for each in VALUES},
        "times in minutes": partial(CameraTimes.of, {"a": {"front": [1.0]}}, unit="min"),
        "hours": lambda: CameraTimes.read(tmp_path / "no.csv", unit="hours"),
        **{
            f"no file of {kind}": partial(CameraTimes.read, tmp_path / f"no.{kind}")
            for kind in ("json", "csv", "xlsx")
        },
        **{
            f"no path for {kind.__name__}": partial(kind.read, 7)
            for kind in (CameraTimes, MomentTable, NuScenes)
        },
        "another number of frames": lambda: times.of_frames("a", "front", 4),
        "another clip": lambda: times.of_frames("b", "front", 3),
        "another camera": lambda: times.of_frames("a", "back", 3),
    }
    refused("camera_times", calls)
