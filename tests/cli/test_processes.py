"""Commands in their own processes: signals, closed outputs, tab completion."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from cli.kit import FAST, SQUEEZENET, python, recorded
from headrace.cli.signals import ending_on_sigterm
from headrace.testing.synth import KINDS, SynthClip, write_clip
from runs.retrain.toy import write_toys

INTERRUPTED = """
import atexit, json, os, signal, sys
from importlib import import_module

class Kept:
    def __del__(self):
        os.write(2, b"collected\\n")

kept = Kept()
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell ignores it
where, name, count, number, is_twice = json.loads(sys.argv[1])
module, _, kind = where.rpartition(".")
owner, calls = getattr(import_module(module), kind), []
plain = getattr(owner, name)

def interrupting(self, *given, **named):
    result = plain(self, *given, **named)
    calls.append(None)
    if len(calls) == count:
        atexit.register(os.write, 2, b"exit handlers were called\\n")
        os.kill(os.getpid(), number)
    return result

setattr(owner, name, interrupting)
if is_twice:  # once more, while the record is written
    import headrace.report.folder
    headrace.report.folder.write_run = lambda *_: os.kill(os.getpid(), signal.SIGINT)
from headrace.cli import main
sys.argv[1:] = sys.argv[2:]
main()
"""
"""Program that sends itself a signal at the n-th call of a method; it exits without garbage
collection."""

AT_ONCE = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell ignores it
from headrace.cli.signals import ending_at_once
with ending_at_once():
    try:
        os.kill(os.getpid(), int(sys.argv[1]))
        print("went on")
    except BaseException:
        print("swallowed")
"""
START = "headrace.profiling.recorder.Recorder", "__init__"
ROW = "headrace.sinks.result_rows.LineFile", "write"
STEP = "headrace.runs.retrain.learner.Learner", "step"
CAMERA = ("run", "test://?size=64x96&rate=100", *FAST)
FILE = ("run", "{0}/clip.mp4", *FAST, "--batch-size", 8)
TRAINING = ("run", "{0}/toys", *SQUEEZENET, "--mode", "retrain", "--epochs", 99, "--threads", 1)
NONE_YET = "interrupted"
KEPT = "interrupted; completed work is kept in {0}/out"
HEAD = "interrupted; the last saved head is {0}/out/head.pt"
TWICE = "interrupted while the record was written; the files so far are in {0}/out"
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
ENDS = {
    "a camera at its start": ((*START, 1), signal.SIGTERM, CAMERA, NONE_YET),
    "a file at its start": ((*START, 1), signal.SIGINT, FILE, NONE_YET),
    "a file": ((*ROW, 3), signal.SIGINT, FILE, KEPT),
    "a camera": ((*ROW, 5), signal.SIGINT, CAMERA, KEPT),
    "SIGTERM": ((*ROW, 5), signal.SIGTERM, CAMERA, KEPT),
    "a training": ((*STEP, 3), signal.SIGINT, TRAINING, HEAD),
    "twice": ((*ROW, 3), signal.SIGINT, FILE, TWICE),
}


@pytest.mark.slow
@pytest.mark.parametrize(("at", "number", "command", "words"), ENDS.values(), ids=ENDS)
def test_a_signal_ends_a_run_with_a_complete_record(tmp_path, at, number, command, words):
    """Sends a real signal to a process in the middle of a run."""
    write_clip(tmp_path / "clip", KINDS["h264_long_gop"])
    (tmp_path / "toys").mkdir()
    write_toys(tmp_path / "toys")
    out = tmp_path / "out"
    typed = [str(word).format(tmp_path) for word in command]
    is_twice = words == TWICE
    given = json.dumps((*at, int(number), is_twice))
    done = python(INTERRUPTED, given, *typed, "--quiet", "--out", out)
    assert done.returncode == CODES[number], done.stderr
    message = f"headrace: {words.format(tmp_path)}"
    assert done.stderr.splitlines() == [message, "exit handlers were called"]
    session = recorded(out)
    assert session["outcome"] == "interrupted"
    assert not list(out.glob(".*"))
    if command == CAMERA:
        items = session["items"]
        assert items["arrived"] == items["delivered"] + items["dropped"] + items["in_flight"]
        lines = (out / "predictions.jsonl").read_text().splitlines() if items["delivered"] else []
        assert all(map(json.loads, lines))
    if at[:2] == STEP:
        assert len(session["steps"]["loss"]) == 2
        assert (out / "head.pt").is_file()
    assert (out / "report.html").exists() != is_twice


@pytest.fixture(autouse=True)
def _python_handles_ctrl_c():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("number", CODES)
def test_a_swallowed_interrupt_is_raised_again_at_the_start_of_the_work(number):
    with ending_on_sigterm() as ending:
        with suppress(KeyboardInterrupt):
            os.kill(os.getpid(), number)
        with pytest.raises(KeyboardInterrupt):
            ending.start()
    assert not ending.has_started


@pytest.mark.parametrize("number", CODES)
@pytest.mark.parametrize("is_released", [False, True], ids=["comes again", "is released"])
def test_a_deferred_signal_interrupts_on_release_or_when_repeated(number, is_released):
    with ending_on_sigterm() as ending:
        ending.is_deferred = True
        os.kill(os.getpid(), number)
        with pytest.raises(KeyboardInterrupt):
            ending.release() if is_released else os.kill(os.getpid(), number)


@pytest.mark.parametrize(("number", "code"), CODES.items())
def test_a_signal_ends_imports_even_if_they_catch_exceptions(number, code):
    done = python(AT_ONCE, int(number))
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "headrace: interrupted\n")


@pytest.mark.parametrize("arguments", [("--version",), ("launch", "--example"), ("run", "--help")])
def test_a_full_disk_for_stdout_is_one_line(arguments):
    command = [sys.executable, "-m", "headrace", *arguments]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    message = "headrace: cannot write to standard output: no space left on device\n"
    assert (done.returncode, done.stderr) == (1, message)


@pytest.mark.parametrize(
    ("command", "code"), [("index {0} {0} | head -c 1", 0), ("--quiet index {0} >&-", 0)]
)
def test_a_closed_output_is_no_error(tmp_path, command, code):
    clip = write_clip(tmp_path / "clip", SynthClip(num_frames=12))
    line = f"{sys.executable} -m headrace {command.format(clip)}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, "")


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("run --view m", ["metrics"]),
        ("run cl", []),
        ("run --decode t", ["torchcodec", "torchcodec:cuda"]),
    ],
)
def test_completion_offers_choices_and_leaves_files_to_the_shell(typed, completed):
    """Without completions of the command, `complete -o default` falls back to the shell."""
    words = {"COMP_WORDS": f"headrace {typed}", "COMP_CWORD": str(len(typed.split()))}
    program = "import sys; sys.argv[0] = 'headrace'; from headrace.cli import main; main([])"
    done = python(program, env={**os.environ, **words, "_HEADRACE_COMPLETE": "complete_bash"})
    assert (done.stdout.split(), done.stderr) == (completed, "")
