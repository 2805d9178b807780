"""Predictions: equal rows as JSON lines and as a Parquet table."""

from contextlib import closing

import pytest

from headrace.sinks.result_rows import open_predictions
from runs.kit import predictions
from sinks.made import labelled_frames

SOURCES = ("a.mp4", "b.mp4")
KINDS = pytest.mark.parametrize("kind", ["jsonl", "parquet"])


def written(kind, folder, *batches, top_k=1):
    """Write batches in a format; return the rows read back, and the outputs."""
    sink = open_predictions(kind, folder, SOURCES, top_k=top_k)
    with closing(sink):
        for batch in batches:
            sink.write(batch)
    return predictions(folder, kind), sink.outputs


@KINDS
def test_each_frame_is_a_row_with_its_video_and_exact_time(tmp_path, kind):
    rows, outputs = written(kind, tmp_path, labelled_frames(0, 2), labelled_frames(7, 1, video=1))
    assert outputs == (f"predictions.{kind}",)
    assert [path.name for path in tmp_path.iterdir()] == [f"predictions.{kind}"]
    assert [(row["source"], row["index"], row["pts"]) for row in rows] == [
        *(("a.mp4", 0, 0), ("a.mp4", 1, 3000)),
        ("b.mp4", 7, 21000),
    ]
    assert rows[2] == {
        **{"source": "b.mp4", "index": 7, "pts": 21000, "pts_seconds": 0.233333},
        **{"label": "cat", "confidence": 0.75},
    }


@KINDS
def test_with_top_k_a_row_has_all_classes_the_likeliest_first(tmp_path, kind):
    ((row,), _) = written(kind, tmp_path, labelled_frames(0, 1, top_k=3), top_k=3)
    assert (row["label"], row["confidence"]) == ("cat", 0.75)
    assert row["labels"] == ["cat", "dog", "owl"]
    assert row["confidences"] == [0.75, 0.125, 0.0625]


def test_both_formats_hold_the_same_rows(tmp_path):
    batches = [labelled_frames(k, 3, top_k=2) for k in range(0, 9, 3)]
    lines, _ = written("jsonl", tmp_path, *batches, top_k=2)
    table, _ = written("parquet", tmp_path, *batches, top_k=2)
    assert lines == table


@KINDS
def test_without_a_frame_there_is_no_file(tmp_path, kind):
    sink = open_predictions(kind, tmp_path, SOURCES, top_k=1)
    sink.close()
    sink.close()
    assert (sink.outputs, list(tmp_path.iterdir())) == ((), [])


def test_a_table_appears_only_when_complete(tmp_path):
    with closing(open_predictions("parquet", tmp_path, SOURCES, top_k=1)) as sink:
        sink.write(labelled_frames(0, 2))
        assert not (tmp_path / "predictions.parquet").exists()
