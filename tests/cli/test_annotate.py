"""`headrace annotate`, as a user meets it."""

import json

import pytest
from PIL import Image

from decode.backends import needs_torchcodec
from weights import faces


@pytest.fixture
def picture(tmp_path):
    path = tmp_path / "people.png"
    with Image.open(faces()) as image:
        image.crop((200, 40, 560, 400)).save(path)
    return path


def test_faces_are_found_and_the_files_are_named(tmp_path, call, picture):
    out = tmp_path / "out"
    code, said, err = call("annotate", picture, "--model-name", "mtcnn", "--out", out)
    assert (code, err) == (0, "")
    assert said.splitlines()[-4:] == [
        f"Annotated pictures: {out}/annotated",
        f"Boxes, for COCO's tools: {out}/coco.json",
        f"Boxes: {out}/boxes.parquet",
        f"Report: {out}/report.html",
    ]
    found = json.loads((out / "coco.json").read_text())
    assert len(found["annotations"]) == 3
    assert (out / "annotated" / "people.png").is_file()


def test_json_is_the_session_and_nothing_else(tmp_path, call, picture):
    chosen = ("--model-name", "mtcnn", "--no-parquet", "--no-video", "--out", tmp_path / "out")
    code, said, _ = call("annotate", picture, *chosen, "--json")
    session = json.loads(said)
    assert (code, session["outcome"]) == (0, "complete")
    assert session["outputs"][0] == "coco.json"
    assert "boxes.parquet" not in session["outputs"]


def test_a_dry_run_says_how_many_and_writes_nothing(tmp_path, call, picture):
    chosen = ("--model-name", "mtcnn", "--out", tmp_path / "out", "--dry-run")
    code, said, _ = call("annotate", picture, *chosen)
    assert code == 0
    assert said.splitlines()[-1].startswith("Dry run: 1 of 1 pictures would be decoded; ")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--model-name", "fasterrcn"], "no detection model 'fasterrcn'; did you mean fasterrcnn"),
        (["--model-name", "resnet50"], "no detection model 'resnet50' (it is a classification"),
        (["--threshold", "70"], "threshold must lie in 0 to 1, got 70.0"),
        (["--model-name", "mtcnn", "--classes", "fcae"], "no class 'fcae'; did you mean face?"),
        (["--classes", "a,,b"], "give names of classes with commas between them, got 'a,,b'"),
        (["--model-name", "mtcnn", "--weights", "none"], "leave out --weights"),
    ],
)
def test_what_is_not_possible_is_an_error_of_one_line(tmp_path, call, picture, options, words):
    code, _, err = call("annotate", picture, "--out", tmp_path / "out", *options)
    assert code == 2
    assert words in " ".join(err.replace("│", " ").split())


@needs_torchcodec
def test_pictures_are_not_for_another_decoder(tmp_path, call, picture):
    chosen = ("--model-name", "mtcnn", "--decode", "torchcodec", "--out", tmp_path / "out")
    code, _, err = call("annotate", picture, *chosen)
    assert code == 2
    assert f"--decode torchcodec is for videos, and {picture} is a picture" in err
    assert not (tmp_path / "out").exists()


def test_run_says_which_command_takes_a_detector(picture, call):
    code, _, err = call("run", picture, "--model-name", "mtcnn")
    assert code == 2
    assert "it is a detection model, for headrace annotate" in err
