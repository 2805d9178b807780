"""`headrace extract frames` as a user meets it."""

import json

import pytest

from decode.gpus import needs_no_gpu
from headrace.testing import damage
from headrace.testing.synth import SynthClip, write_clip


@pytest.fixture
def clip(tmp_path):
    return write_clip(tmp_path / "clip", SynthClip(num_frames=24, b_frames=2))


@pytest.fixture
def extract(call, tmp_path):
    def run(*arguments):
        return call("extract", "frames", *arguments, "-o", tmp_path / "out", "--workers", 1)

    return run


def test_it_says_where_things_are_and_a_second_time_that_there_is_nothing_to_do(
    extract, clip, tmp_path
):
    out = tmp_path / "out"
    code, said, err = extract(clip, "--fps", 2, "--prefix", "shot_", "--format", "jpg")
    assert (code, err) == (0, "")
    assert "clip.mp4 · complete" in said
    assert said.endswith(
        f"Pictures: 2 in {out}\nTable: {out}/frames.parquet\nReport: {out}/report.html\n"
    )
    names = {path.name for path in out.iterdir() if path.suffix != ".csv"}
    assert names == {
        ".extraction",
        "frames.parquet",
        "report.html",
        "session.json",
        "shot_clip_000000_0.000s.jpg",
        "shot_clip_000015_0.500s.jpg",
    }
    again = extract(clip, "--fps", 2, "--prefix", "shot_", "--format", "jpg")
    assert again == (0, f"Nothing to do: 2 pictures are in {out} already\n", "")


def test_json_is_the_session(extract, clip):
    code, said, _ = extract(clip, "--keyframes", "--json")
    session = json.loads(said)
    assert (code, session["kind"], session["outcome"]) == (0, "extract", "complete")
    assert session["provenance"]["configuration"]["frames"] == "keyframes"


def test_a_dry_run_tells_how_many_how_large_and_how_long(extract, clip, tmp_path):
    code, said, _ = extract(clip, "--every", 6, "--dry-run")
    first, size, time = said.splitlines()
    assert (code, first) == (0, f"Dry run: 4 pictures of 1 video would go to {tmp_path / 'out'}")
    assert size.startswith("Size: about ")
    assert time.endswith(" on 1 worker, by what the samples took")
    code, said, _ = extract(clip, "--every", 6, "--dry-run", "--json")
    assert json.loads(said)["frames"] == 4
    assert not (tmp_path / "out").exists()


def test_what_did_not_come_is_named_and_the_exit_code_tells(extract, clip, tmp_path):
    bad = damage.damage_packets(clip, tmp_path / "bad.mp4", ordinals=[13])
    code, _, err = extract(tmp_path / "gone.mp4", bad, clip, "--every", 1)
    assert code == 3
    first, gone, *others = err.splitlines()
    assert "of 48 did not come, and 1 video could not be opened:" in first
    assert f"the whole video: cannot open {tmp_path / 'gone.mp4'}: no such file" in gone
    assert "bad.mp4 cannot be decoded" in others[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "say which frames by one of --fps, --every, --keyframes, --at (--every 1: all)"),
        (("--fps", 1, "--every", 2), "got 2 of them"),
        (("--fps", "x"), "--fps takes a number, as 0.5 or 1/3, got 'x'"),
        (("--fps", "1/0"), "--fps takes a number"),
        (("--fps", 0), "a rate must be > 0"),
        (("--at", "1,,2"), "--at takes numbers with commas between them, got ''"),
        (("--at", "0.5,9"), "shows nothing at 9 s: it runs from 0.000 s to 0.800 s"),
        (("--every", 2, "--quality", 90), "png loses nothing"),
        (("--every", 2, "--size", "100"), "--size is a height and a width"),
        (("--every", 2, "--size", "0x9"), "size is (height, width)"),
        (("--every", 2, "--prefix", "a/b"), "a prefix is the beginning of a file name"),
        (
            ("--every", 2, "rtsp://camera/1"),
            "frames are extracted from files: rtsp://camera is an address",
        ),
    ],
)
def test_what_is_not_possible_is_said_in_one_line(extract, clip, tmp_path, arguments, words):
    code, said, err = extract(clip, *arguments)
    assert (code, said, err.count("\n")) == (2, "", 1)
    assert words in err
    assert not (tmp_path / "out").exists()


@needs_no_gpu
def test_what_decodes_may_be_said_and_is_recorded(extract, clip):
    code, said, err = extract(clip, "--keyframes", "--decode", "auto", "--json")
    assert (code, err) == (0, "")
    session = json.loads(said)
    assert session["provenance"]["configuration"]["decode"] == "pyav:auto"
    assert any(note.startswith("decoded by the CPU alone, as ") for note in session["notes"])


@needs_no_gpu
@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_a_decoder_that_is_not_here_is_refused_before_anything_is_written(
    extract, clip, tmp_path, dry
):
    code, _, err = extract(clip, "--keyframes", "--decode", "cuda", *dry)
    assert (code, len(err.splitlines())) == (1, 1)
    assert "decoding on GPU 0 was asked for" in err
    assert "leave --decode out" in err
    assert not (tmp_path / "out").exists()


def test_a_folder_takes_one_request(extract, clip, tmp_path):
    assert extract(clip, "--every", 12)[0] == 0
    code, _, err = extract(clip, "--every", 6)
    assert code == 2
    assert "holds another extraction: frames was every 12, now every 6; give another" in err
    (tmp_path / "out" / ".extraction" / "request.json").unlink()
    assert "holds something else (" in extract(clip, "--every", 12)[2]
