"""CameraTimes of JSON, CSV, JSON lines and Parquet: exact to a microsecond, and checked."""

import json

import pyarrow
import pyarrow.parquet
import pytest

from headrace import CameraTimes

US = [1532402927612460, 1532402927695794, 1532402927779128]
SECONDS = [time / 1e6 for time in US]


def read_times(path, **options):
    return CameraTimes.read(path, **options).of_frames("a", "front", 3).tolist()


def write(path, text):
    path.write_text(text)
    return path


def write_table(folder, head, rows):
    text = "".join(",".join(map(str, row)) + "\n" for row in [(head,), *rows])
    return write(folder / "times.csv", text)


def test_json_holds_lists_of_seconds(tmp_path):
    for name, times, unit in (("times", SECONDS, None), ("us", US, "us")):
        path = write(tmp_path / f"{name}.json", json.dumps({"a": {"front": times}}))
        assert read_times(path, unit=unit) == SECONDS


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
def test_the_unit_of_a_table_is_its_column_name_or_an_argument(tmp_path, head, scale, options):
    rows = [("a", "front", f"{time / 1e6:.6f}" if scale < 1 else time * scale) for time in US]
    assert read_times(write_table(tmp_path, head, rows), **options) == SECONDS


def test_rows_of_cameras_may_alternate_and_frames_say_their_order(tmp_path):
    rows = [("a", name, frame, US[frame]) for frame in (2, 0, 1) for name in ("front", "back")]
    path = write_table(tmp_path, "clip,camera,frame,timestamp_us", rows)
    assert read_times(path) == SECONDS
    assert CameraTimes.read(path).clocks == {"front", "back"}


def test_parquet_and_json_lines_are_read(tmp_path):
    rows = [{"clip": "a", "camera": "front", "timestamp_us": time, "other": 1} for time in US]
    lines = write(tmp_path / "times.jsonl", "\n".join(map(json.dumps, rows)))
    assert read_times(lines) == SECONDS
    path = tmp_path / "times.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    assert read_times(path) == SECONDS


def test_invalid_times_are_refused(tmp_path, refused):
    def read(text, kind):
        return CameraTimes.read(write(tmp_path / f"times.{kind}", text))

    refused("camera_times", read=read, times=CameraTimes.of({"a": {"front": SECONDS}}))
