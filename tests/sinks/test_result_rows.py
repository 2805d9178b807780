"""Predictions and boxes as rows of files."""

import json
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pyarrow.parquet
import pytest
from PIL import Image

from headrace.models.results import ClassNames
from headrace.sinks.annotated import AnnotatedImages
from headrace.sinks.batch_results import Arrival
from headrace.sinks.coco import CocoFile
from headrace.sinks.painting import BoxPainter
from headrace.sinks.result_rows import open_boxes, open_predictions
from runs.kit import predictions
from sinks.made import DOG, frames_with_boxes, images_with_boxes, labelled_frames

SOURCES = ("a.mp4", "b.mp4")
NAMES = ClassNames(names=("__background__", "person", *["N/A"] * 16, "dog"))
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


def test_without_a_frame_there_is_no_file(tmp_path):
    sinks = [open_predictions(kind, tmp_path, SOURCES, top_k=1) for kind in ("jsonl", "parquet")]
    for sink in (*sinks, CocoFile(tmp_path, [], NAMES), open_boxes("parquet", tmp_path, [])):
        sink.close()
        sink.close()
        assert sink.outputs == ()
    assert list(tmp_path.iterdir()) == []


def test_lines_of_an_earlier_run_stay_until_the_first_row(tmp_path):
    path = tmp_path / "predictions.jsonl"
    path.write_text("before\n")
    with closing(open_predictions("jsonl", tmp_path, SOURCES, top_k=1)) as sink:
        pass
    assert (path.read_text(), sink.outputs) == ("before\n", ())
    with closing(open_predictions("jsonl", tmp_path, SOURCES, top_k=1)) as sink:
        sink.write(labelled_frames(0, 2))
    assert "before" not in path.read_text()


def test_a_table_appears_only_when_complete(tmp_path):
    with closing(open_predictions("parquet", tmp_path, SOURCES, top_k=1)) as sink:
        sink.write(labelled_frames(0, 2))
        assert not (tmp_path / "predictions.parquet").exists()


def coco_of(folder, *batches, names=NAMES) -> dict:
    folder.mkdir(exist_ok=True)
    sink = CocoFile(folder, ["a.mp4", "b.mp4"], names)
    for batch in batches:
        sink.write(batch)
    assert not (folder / "coco.json").exists(), "it appears only when complete"
    sink.close()
    sink.close()
    assert sink.outputs == ("coco.json",)
    assert [path.name for path in folder.iterdir()] == ["coco.json"]
    return json.loads((folder / "coco.json").read_text())


def test_a_coco_file_has_every_frame_and_each_box_as_corner_and_size(holds, tmp_path):
    coco = coco_of(tmp_path, frames_with_boxes(7, 2, video=1), frames_with_boxes(0, 1))
    holds("coco.json", json.dumps(coco, indent=1) + "\n")


def test_images_are_named_by_their_paths_and_have_no_times(holds, tmp_path):
    coco = coco_of(tmp_path, images_with_boxes("ä.png", "b.jpg"), names=ClassNames(names=None))
    holds("coco_of_pictures.json", json.dumps(coco, indent=1) + "\n")


def test_the_table_has_a_row_for_each_box_and_no_times_for_images(holds, tmp_path):
    table = open_boxes("parquet", tmp_path, ["a.mp4"])
    table.write(frames_with_boxes(3, 2))
    table.write(images_with_boxes("b.png"))
    table.close()
    rows = pyarrow.parquet.read_table(tmp_path / "boxes.parquet").to_pylist()
    holds("boxes.json", "".join(f"{json.dumps(row)}\n" for row in rows))


def test_a_frame_of_a_live_run_is_a_line_with_its_boxes_and_arrival(tmp_path):
    arrival_time = datetime(2026, 1, 31, 12, tzinfo=UTC)
    arrival = Arrival(segment=2, arrival_time=arrival_time, capture_time=None)
    results = replace(frames_with_boxes(3, 1), arrival=arrival)
    fields = {
        "segment": 2,
        "arrival_time": "2026-01-31T12:00:00.000000+00:00",
        "capture_time": None,
    }
    with closing(open_boxes("jsonl", tmp_path, ["door"])) as lines:
        lines.write(results)
        [line] = (tmp_path / "boxes.jsonl").read_text().splitlines()  # while the run continues
    row = json.loads(line)
    assert [box["label"] for box in row["boxes"]] == ["dog", "person"]
    assert row["boxes"][0] == {"label_id": 18, "label": "dog", "score": 0.75, "xyxy": list(DOG)}
    assert {name: row[name] for name in ("source", "index", *fields)} == {
        **{"source": "door", "index": 3},
        **fields,
    }
    with closing(open_boxes("parquet", tmp_path, ["door"], is_live=True)) as table:
        table.write(results)
    [first, _] = pyarrow.parquet.read_table(tmp_path / "boxes.parquet").to_pylist()
    assert (first["segment"], first["arrival_time"]) == (2, arrival_time)
    assert first["capture_time"] is None
    image = coco_of(tmp_path / "coco", results)["images"][0]
    assert {name: image[name] for name in fields} == fields


def test_a_run_without_boxes_writes_an_empty_table(tmp_path):
    results = frames_with_boxes(0, 2)
    columns = vars(results.output).items()
    values = {name: tuple(part[:0] for part in column) for name, column in columns}
    table = open_boxes("parquet", tmp_path, ["a.mp4"])
    table.write(replace(results, output=replace(results.output, **values)))
    table.close()
    assert pyarrow.parquet.read_table(tmp_path / "boxes.parquet").num_rows == 0


def test_boxes_are_drawn_at_their_position_on_a_copy():
    results = frames_with_boxes(0, 2)
    painter = BoxPainter((80, 100))
    first, second = (painter.paint(results, k) for k in range(2))
    edge = first[40, 10]
    assert edge.any()
    assert (first[60, 12:30] == edge).all(), "the lower edge"
    assert not first[45:58, 13:28].any(), "nothing inside"
    assert not second.any()
    assert not results.batch.frames.any()


def test_boxes_outside_the_frame_or_without_a_size_can_be_drawn():
    results = frames_with_boxes(0, 1)
    results.output.xyxy[0][:] = np.float32([(-50, -50, 500, 500), (5, 5, 5, 5)])
    image = BoxPainter((80, 100)).paint(results, 0)
    assert image.shape == (80, 100, 3)


def test_annotated_images_keep_names_folders_and_formats(tmp_path):
    sink = AnnotatedImages(tmp_path)
    names = ("a.png", "below/a.jpg", "b.WEBP")
    sink.write(images_with_boxes(*names))
    sink.close()
    assert sink.outputs == ("annotated/",)
    for name, kind in zip(names, ("PNG", "JPEG", "WEBP"), strict=True):
        with Image.open(tmp_path / "annotated" / name) as image:
            assert (image.format, image.size) == (kind, (100, 80))
