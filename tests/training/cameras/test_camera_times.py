"""Times from a file: JSON, CSV, JSON lines, Parquet; exact to a microsecond, and checked."""

import json

import pyarrow
import pyarrow.parquet
import pytest

from headrace.errors import ConfigError
from headrace.training.cameras.camera_times import CameraTimes
from headrace.training.cameras.moment_table import MomentTable
from headrace.training.cameras.nuscenes import NuScenes

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
    path = write(tmp_path / "times.json", json.dumps({"a": {"front": SECONDS}}))
    assert found(path) == SECONDS
    path = write(tmp_path / "us.json", json.dumps({"a": {"front": US}}))
    assert found(path, unit="us") == SECONDS


@pytest.mark.parametrize(
    ("head", "scale"),
    [
        ("clip,camera,seconds", 10**-6),
        ("clip,camera,timestamp_us", 1),
        ("scene,channel,microseconds", 1),
        ("clip,camera,timestamp_ns", 1000),
    ],
)
def test_a_table_says_its_unit_by_the_name_of_its_column(tmp_path, head, scale):
    rows = [("a", "front", f"{each / 1e6:.6f}" if scale < 1 else each * scale) for each in US]
    assert found(write(tmp_path / "times.csv", table(head, rows))) == SECONDS


def test_a_bare_timestamp_needs_a_unit(tmp_path):
    rows = [("a", "front", each) for each in US]
    path = write(tmp_path / "times.csv", table("clip,camera,timestamp", rows))
    assert found(path, unit="us") == SECONDS
    with pytest.raises(ConfigError, match="give unit=, one of s, ms, us, ns"):
        CameraTimes.read(path)


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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no row"),
        ("clip,camera,seconds\n", "holds no row"),
        ("clip,seconds\na,1\n", "must have one column called camera or channel; it has clip"),
        ("clip,camera\na,b\n", "must have one column of times"),
        ("clip,camera,seconds,timestamp_us\na,b,1,1\n", "it has seconds, timestamp_us"),
        ("clip,camera,seconds\na,b,soon\n", "line 2 of .* must be a number of s, got 'soon'"),
        ("clip,camera,seconds\na,b,nan\n", "line 2 of .* must be a number"),
        ("clip,camera,seconds\na,b,1e999999999\n", "line 2 of .* must be a number"),
        ("clip,camera,seconds\na,b,\n", "line 2 of .* must be a number"),
        ("clip,camera,seconds\na,,1\n", "line 2 of .* has no camera"),
        ("clip,camera,seconds\na,b,2\na,b,1\n", r"b of clip 'a' in .* go back at frame 1, from 2"),
        ("clip,camera,frame,seconds\na,b,0,2\na,b,0,1\n", "frame 0 is there twice"),
        ("clip,camera,frame,seconds\na,b,0,2\na,b,2,3\n", "frame 2 follows, and 1 is missing"),
        ("clip,camera,frame,seconds\na,b,x,2\n", "frame of line 2 of .* whole number"),
    ],
)
def test_a_table_that_says_no_times_is_refused_by_name(tmp_path, text, said):
    with pytest.raises(ConfigError, match=said):
        CameraTimes.read(write(tmp_path / "times.csv", text))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "holds no times, which read like"),
        ("[]", "holds no times, which read like"),
        ("{}", "holds no times, which read like"),
        ('{"a": 3}', "holds no times, which read like"),
        ('{"a": {"b": 3}}', "b of clip 'a' in .* must be a list of numbers, not empty"),
        ('{"a": {"b": []}}', "must be a list of numbers, not empty"),
        ('{"a": {"b": [true]}}', "must be a number of s, got 'True'"),
        ('{"a": {"b": [NaN]}}', "must be a number of s"),
        ('{"a": {"b": [[1]]}}', "must be a number of s"),
        ("[" * 100_000, "holds no times"),
    ],
)
def test_json_that_says_no_times_is_refused_by_name(tmp_path, text, said):
    with pytest.raises(ConfigError, match=said):
        CameraTimes.read(write(tmp_path / "times.json", text))


def test_what_is_no_file_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="cannot read the times"):
        CameraTimes.read(tmp_path / "no.json")
    with pytest.raises(ConfigError, match="cannot read the table of times"):
        CameraTimes.read(tmp_path / "no.csv")
    with pytest.raises(ConfigError, match="a table of times is a file that ends in"):
        CameraTimes.read(tmp_path / "no.xlsx")
    with pytest.raises(ConfigError, match="unit must be one of s, ms, us, ns, got 'hours'"):
        CameraTimes.read(tmp_path / "no.csv", unit="hours")


def test_another_number_of_times_than_frames_names_clip_camera_and_both():
    times = CameraTimes.of({"a": {"front": SECONDS}})
    with pytest.raises(ConfigError, match="has 3 times for front of clip 'a', and there are 4 fra"):
        times.of_frames("a", "front", 4)
    with pytest.raises(ConfigError, match="no times of clip 'b'; it has a"):
        times.of_frames("b", "front", 3)
    with pytest.raises(ConfigError, match="no times of the camera 'back' of clip 'a'; it has fr"):
        times.of_frames("a", "back", 3)


@pytest.mark.parametrize("read", [CameraTimes.read, MomentTable.read, NuScenes.read])
def test_what_is_no_path_is_refused(read):
    with pytest.raises(ConfigError, match=r"the path of .* is needed, got int"):
        read(7)


@pytest.mark.parametrize(
    ("clips", "unit", "said"),
    [
        ([1], "s", "the times must read like"),
        ({}, "s", "the times must read like"),
        ({"a": [1.0]}, "s", "the times must read like"),
        ({"a": {"front": 1.0}}, "s", "the times of front of clip 'a' in the times must be a list"),
        ({"a": {"front": [1.0]}}, "min", "unit must be one of s, ms, us, ns, got 'min'"),
    ],
)
def test_times_that_are_given_in_another_form_are_refused(clips, unit, said):
    with pytest.raises(ConfigError, match=said):
        CameraTimes.of(clips, unit=unit)
