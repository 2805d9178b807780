"""The file of labels: what it says, and one line for each way it may be wrong."""

import math
from pathlib import Path

from headrace.runs.retrain.frame_labels import LabelRow, read_labels


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
    path = written(tmp_path, "a.mp4,cat,,\nb.mp4,dog,1.5,2\n")
    rows = read_labels(path)
    assert [(row.path.name, row.label, row.start_seconds) for row in rows] == [
        ("a.mp4", "cat", 0.0),
        ("b.mp4", "dog", 1.5),
    ]
