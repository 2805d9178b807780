"""The file of labels: what it says, and one line for each way it may be wrong."""

import math
from pathlib import Path

import pytest

from headrace.errors import ConfigError
from headrace.runs.retrain.label_file import LabelRow, read_labels


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "labels.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_lines_name_a_video_a_label_and_a_part(tmp_path):
    text = "\ufeffLabel, Path ,start_seconds,end_seconds\ncat,a.mp4,,\n\ndög,/b.mp4,1.5,2\n"
    path = written(tmp_path, text)
    whole = {"start_seconds": 0.0, "end_seconds": math.inf}
    assert read_labels(path) == (
        LabelRow(line=2, path=tmp_path / "a.mp4", label="cat", **whole),
        LabelRow(line=4, path=Path("/b.mp4"), label="dög", start_seconds=1.5, end_seconds=2.0),
    )


def test_a_file_without_names_of_columns_has_them_in_order(tmp_path):
    path = written(tmp_path, "a.mp4,cat\nb.mp4,dog,1.5,2\n")
    with pytest.raises(ConfigError, match="more values than the first line has columns"):
        read_labels(path)
    path = written(tmp_path, "a.mp4,cat,,\nb.mp4,dog,1.5,2\n")
    rows = read_labels(path)
    assert [(row.path.name, row.label, row.start_seconds) for row in rows] == [
        ("a.mp4", "cat", 0.0),
        ("b.mp4", "dog", 1.5),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no columns path and label, but nothing; the first line names the columns"),
        ("a,cat\n", "has no columns path and label, but a, cat; the first line"),
        ("path,label\n", "holds no label; the first line"),
        ("path,label\na.mp4\n", "line 2 of .* has no label"),
        ("path,label\na.mp4,cats, dogs\n", "line 2 of .* more values than .* columns; write one"),
        ("path,label\n,cat\n", "line 2 of .* names no video"),
        ("path,label,start_seconds\na.mp4,cat,soon\n", "'soon' for start_seconds; it takes sec"),
        ("path,label,end_seconds\na.mp4,cat,nan\n", "'nan' for end_seconds"),
        ("path,label,start_seconds,end_seconds\na.mp4,cat,3,3\n", "ends at 3 s, which is not aft"),
        ("path,label,end_seconds\na.mp4,cat,-1\n", "ends at -1 s"),
        ("path,label\na\0.mp4,cat\n", "holds a character 0"),
        (b"\xff\xfe\x00p", "no text in UTF-8"),
        ("path,label\n" + "x" * 200_000 + ",cat\n", "line 2 of .* is no CSV: field larger"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message) as caught:
        read_labels(written(tmp_path, text))
    assert len(str(caught.value).splitlines()) == 1


def test_a_file_that_is_not_there_or_a_folder_is_said(tmp_path):
    for path in (tmp_path, tmp_path / "none.csv"):
        with pytest.raises(ConfigError, match=r"cannot read the file of labels .*; give a file"):
            read_labels(path)
