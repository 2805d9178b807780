"""Runs of detectors on videos and images."""

import os
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from PIL import Image

from cli.kit import recorded
from headrace.errors import ConfigError, OpenError
from headrace.models.results import BoxChoice
from headrace.runs.run_options import DetectionOptions
from headrace.testing.synth import SynthClip, write_clip
from runs import kit
from weights import faces

SSD = "ssdlite320_mobilenet_v3_large"


@pytest.fixture
def annotate(prepare, tmp_path):
    """Return a function: sources and options -> a runner, ready."""

    def make(*sources, model=SSD, choice=None, **values):
        weights = "DEFAULT" if model == "mtcnn" else "none"
        boxes = DetectionOptions(choice=choice or BoxChoice(threshold=0, max_boxes=3))
        flat = {"out": tmp_path / "out", "batch_size": 2, "detection": boxes, **values}
        return prepare(sources, model_name=model, weights=weights, **flat)

    return make


@pytest.fixture
def image_folder(tmp_path) -> Path:
    """Return a folder of images of two sizes; two have the same name."""
    folder = tmp_path / "images"
    (folder / "below").mkdir(parents=True)
    for name, width in (("a.png", 64), ("b.jpg", 64), ("c.webp", 96), ("below/a.png", 96)):
        Image.new("RGB", (width, 48), "blue").save(folder / name)
    return folder


def rows_of(folder: Path) -> list[dict]:
    return pyarrow.parquet.read_table(folder / "boxes.parquet").to_pylist()


def test_a_run_on_a_video_writes_boxes_and_an_annotated_video(tmp_path, annotate):
    clip = write_clip(tmp_path / "clip", SynthClip(size=(96, 128), num_frames=5))
    session = annotate(clip).run()
    assert (session.outcome, session.kind) == ("complete", "run")
    assert [stage.name for stage in session.stages] == ["decode", "preprocess", "model", "sink"]
    assert session.outputs == ("annotated.mp4", "coco.json", "boxes.parquet")
    rows, coco = rows_of(tmp_path / "out"), recorded(tmp_path / "out", "coco.json")
    assert [row["index"] for row in rows] == sorted([0, 1, 2, 3, 4] * 3)
    assert {row["source"] for row in rows} == {str(clip)}
    assert len(coco["images"]) == 5
    assert session.notes[-1] == "boxes: 15 in 5 images"
    assert [annotation["score"] for annotation in coco["annotations"]] == pytest.approx(
        [row["score"] for row in rows], abs=1e-6
    )
    for row in rows:
        assert 0 <= row["x1"] < row["x2"] <= 128
        assert 0 <= row["y1"] < row["y2"] <= 96
    assert [frame.width for frame in kit.annotated_frames(tmp_path / "out")] == [128] * 5


def test_images_of_mixed_sizes_are_annotated_in_order_under_their_names(
    tmp_path, annotate, image_folder
):
    session = annotate(image_folder).run()
    assert session.outcome == "complete"
    assert session.steps.frames == (2, 2)
    assert session.decode.bytes_read == sum(f.stat().st_size for f in image_folder.rglob("*.*"))
    images = recorded(tmp_path / "out", "coco.json")["images"]
    names = ["a.png", "b.jpg", "below/a.png", "c.webp"]
    assert [Path(image["file_name"]) for image in images] == [image_folder / name for name in names]
    assert [image["width"] for image in images] == [64, 64, 96, 96]
    annotated = tmp_path / "out" / "annotated"
    assert sorted(p.relative_to(annotated).as_posix() for p in annotated.rglob("*.*")) == names
    assert session.inputs == ()
    assert session.notes[0].startswith("the 4 images have 2 sizes")


def test_equal_names_get_a_number(tmp_path, annotate, image_folder):
    picture = tmp_path / "A.PNG"
    Image.new("RGB", (64, 48)).save(picture)
    annotate(image_folder / "below", picture, image_folder / "a.png", image_folder / "a.png").run()
    names = sorted(path.name for path in (tmp_path / "out" / "annotated").iterdir())
    assert names == ["A-2.PNG", "a-3.png", "a.png"]


def test_stride_max_steps_and_no_video_apply_to_images(tmp_path, annotate, image_folder):
    runner = annotate(image_folder, stride=2, max_steps=1, video=False)
    assert runner.frames_planned == 1
    assert runner.run().outputs == ("coco.json", "boxes.parquet")
    [image] = recorded(tmp_path / "out", "coco.json")["images"]
    assert Path(image["file_name"]).name == "a.png"


def test_threshold_and_classes_filter_boxes(tmp_path, annotate, image_folder):
    annotate(image_folder, choice=BoxChoice(threshold=0), max_steps=1).run()
    rows = [row for row in rows_of(tmp_path / "out") if row["source"].endswith("a.png")]
    threshold, label = sorted(row["score"] for row in rows)[len(rows) // 2], rows[0]["label_id"]
    out = tmp_path / "filtered"
    choice = BoxChoice(threshold=threshold, classes=(str(label),))
    annotate(image_folder, choice=choice, max_steps=1, out=out).run()
    expected = [row for row in rows if row["score"] >= threshold and row["label_id"] == label]
    filtered = [row for row in rows_of(out) if row["source"].endswith("a.png")]
    assert 0 < len(filtered) < len(rows)
    assert filtered == expected


def test_boxes_do_not_depend_on_the_batch_size(tmp_path, annotate):
    folder = tmp_path / "people"
    folder.mkdir()
    with Image.open(faces()) as image:
        for left in (0, 20, 40):
            image.crop((200 + left, 40, 560 + left, 400)).save(folder / f"{left:02}.png")
    boxes = []
    for size in (1, 3):
        out = tmp_path / f"out{size}"
        session = annotate(folder, model="mtcnn", batch_size=size, out=out).run()
        assert len(session.steps) == 3 // size
        rows = rows_of(out)
        boxes.append([[row[name] for name in ("x1", "y1", "x2", "y2", "score")] for row in rows])
    assert len(boxes[0]) >= 6
    assert np.allclose(*boxes, atol=1e-3)
    assert (tmp_path / "out1" / "boxes.parquet").exists()


def test_a_bad_image_ends_the_run_or_is_skipped_and_listed(tmp_path, annotate, image_folder):
    (image_folder / "text.png").write_text("hello")
    with pytest.raises(OpenError, match=r"text.png: it is not a readable PNG"):
        annotate(image_folder)
    intact = faces().read_bytes()
    (image_folder / "below" / "cut.png").write_bytes(intact[: len(intact) // 2])
    session = annotate(image_folder, on_error="skip").run()
    assert "text.png" in " ".join(session.notes)
    assert [frame.cause for frame in session.lost] == [
        f"cannot read the image {image_folder / 'below' / 'cut.png'}: it is damaged or cut off; "
        "copy or convert it again"
    ]
    assert len(recorded(tmp_path / "out", "coco.json")["images"]) == 4
    session = annotate(image_folder / "below" / "cut.png", out=tmp_path / "other").run()
    assert session.outcome == "failed"
    assert not (tmp_path / "other" / "coco.json").exists()


def test_unusual_file_names_are_written(tmp_path, annotate, image_folder):
    not_utf8 = Path(os.fsdecode(os.fsencode(image_folder) + b"/\xff.png"))
    not_utf8.write_bytes((image_folder / "a.png").read_bytes())
    (image_folder / "a.png").rename(image_folder / 'new\nline"é.png')
    session = annotate(image_folder).run()
    assert session.outcome == "complete"
    images = recorded(tmp_path / "out", "coco.json")["images"]
    names = {Path(image["file_name"]).name for image in images}
    assert {"\\udcff.png", 'new\nline"é.png'} <= names
    assert names == {Path(row["source"]).name for row in rows_of(tmp_path / "out")}


def test_an_annotated_image_never_replaces_a_source_and_is_never_a_source(tmp_path, annotate):
    folder = tmp_path / "work"
    (folder / "annotated").mkdir(parents=True)
    Image.new("RGB", (64, 48)).save(folder / "a.png")
    Image.new("RGB", (64, 48)).save(folder / "annotated" / "a.png")
    with pytest.raises(ConfigError, match=r"would replace its source .*give another folder"):
        annotate(folder / "annotated" / "a.png", out=folder)
    assert annotate(folder, out=folder).frames_planned == 1


def test_the_detection_options_are_recorded(annotate, image_folder):
    runner = annotate(image_folder, choice=BoxChoice(classes=("1", "2")))
    values = runner.options.configuration()
    assert (values["threshold"], values["classes"], values["max_boxes"]) == (0.7, "1, 2", None)
    assert not {"predictions", "top_k"} & values.keys()
