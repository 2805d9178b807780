"""`--rate`: pictures in order are read as a video, by every command that reads videos."""

import json

import pyarrow.parquet
import pytest

from cli.pictures import write_pictures
from headrace.testing.synth import SynthClip, write_clip

RUN = ("run", "--model-name", "squeezenet1_1", "--weights", "none", "--no-video", "--batch-size", 8)
FRAMES = ("extract", "frames", "--every", 4, "--size", "32x48", "--workers", 1)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return write_pictures(tmp_path_factory.mktemp("pictures") / "frames", 12)


@pytest.mark.parametrize("how", [(), ("--max-seconds", 600)], ids=["at full speed", "as they come"])
def test_a_model_is_run_on_pictures_in_order(call, pictures, tmp_path, how):
    out = tmp_path / "out"
    code, said, _ = call(*RUN, pictures, "--rate", "12.5", *how, "--out", out, "--json")
    assert code == 0
    session = json.loads(said)
    assert (sum(session["steps"]["frames"]), session["provenance"]["configuration"]["rate"]) == (
        *(12, "12.5"),
    )
    lines = [json.loads(line) for line in (out / "predictions.jsonl").read_text().splitlines()]
    assert [line["pts_seconds"] for line in lines] == pytest.approx([k * 0.08 for k in range(12)])


def names(folder):
    return sorted(each.name for each in folder.glob("*.png"))


def test_frames_of_pictures_in_order_are_extracted(call, pictures, tmp_path):
    """Their numbers and times are those of the sequence; another rate is another request."""
    out = tmp_path / "out"
    command = (*FRAMES, pictures, "-o", out)
    code, said, _ = call(*command, "--rate", 10, "--dry-run")
    assert (code, "3 pictures of 1 video" in said) == (0, True)
    assert call(*command, "--rate", 10)[0] == 0
    assert names(out) == [f"frames_{k:06d}_{k / 10:.3f}s.png" for k in (0, 4, 8)]
    code, said, _ = call(*command, "--rate", "10.0")
    assert (code, said.startswith("Nothing to do")) == (0, True)
    code, _, err = call(*command, "--rate", 20)
    assert (code, f"rate of {pictures} was 10, now 20" in err) == (2, True)
    rows = pyarrow.parquet.read_table(out / "frames.parquet").to_pylist()
    assert [row["pts_seconds"] for row in rows] == [0.0, 0.4, 0.8]


def test_pictures_of_a_pattern_are_named_after_it(call, pictures, tmp_path):
    assert call(*FRAMES, pictures / "%05d.jpg", "--rate", 4, "-o", tmp_path / "out")[0] == 0
    assert names(tmp_path / "out")[1] == "frames_000004_1.000s.png"


def test_features_of_pictures_in_order_are_kept(call, pictures, tmp_path):
    model = ("--model-name", "squeezenet1_1", "--weights", "none", "--cache", "none")
    command = ("extract", "features", "--every", 5, *model, "--workers", 1)
    out = tmp_path / "out"
    assert call(*command, pictures, "--rate", "5/2", "-o", out)[0] == 0
    [row] = pyarrow.parquet.read_table(out / "features-00000.parquet").to_pylist()
    assert row["index"] == [0, 5, 10]


COMMANDS = {"run": RUN, "frames": (*FRAMES, "-o", "out")}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("frames",), "pictures in order need a rate (ImageSequence; --rate of a"),
        (("frames/%05d.jpg",), "if it is a pattern of pictures, say how many are shown a second"),
        (("frames", "--rate", "0"), "rate must be above 0"),
        (("frames", "--rate", "-5"), "rate must be above 0"),
        (("frames", "--rate", "abc"), "rate must be a finite number"),
        (("frames", "--rate", "nan"), "rate must be a finite number"),
        (("frames", "--rate", "inf"), "rate must be a finite number"),
        (("frames", "--rate", "1/0"), "rate must be a finite number"),
        (("frames", "--rate", ""), "rate must be a finite number"),
        (("film.mp4", "--rate", "10"), "a video has a rate of its own, so give none"),
        (("frames/%05d.png", "--rate", "10"), "no file is named like that"),
        (("gone", "--rate", "10"), "no such file or directory"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    call, pictures, monkeypatch, command, arguments, said
):
    monkeypatch.chdir(pictures.parent)
    if not (pictures.parent / "film.mp4").exists():
        write_clip(pictures.parent / "film", SynthClip(num_frames=2, size=(64, 96)))
    code, out, err = call(*command, *arguments)
    assert (code in (1, 2), out) == (True, "")
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("source", ["0", "/dev/video0", "rtsp://user:secret@host/live", "test://"])
def test_a_rate_is_not_for_what_comes_as_it_comes(call, source):
    code, out, err = call(*RUN, source, "--rate", 10)
    assert (code, out) == (2, "")
    assert "--rate is for pictures in order" in err
    assert "secret" not in err
