"""`headrace run` on what comes as it comes, as a user meets it."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from headrace.errors import ConfigError
from headrace.testing.synth import SynthClip, write_clip
from live.rtsp import RtspServer, needs_server

FAST = ("--model-name", "squeezenet1_1", "--weights", "none", "--no-video")

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"


@pytest.fixture
def good(tmp_path):
    return write_clip(tmp_path / "good", SynthClip(num_frames=30))


def test_a_file_in_real_time_says_what_became_of_every_frame(call, good, tmp_path):
    code, out, err = call(
        *("run", good, *FAST, "--pace", "realtime", "--overload", "every-frame"),
        *("--out", tmp_path / "out"),
    )
    assert (code, err) == (0, "")
    assert "= 30 delivered + 0 dropped + 0 in flight" in out
    assert "median from schedule" in out
    session = json.loads((tmp_path / "out" / "session.json").read_text())
    assert (session["kind"], session["pace"]) == ("live", "schedule")


def test_clips_of_a_video_model_from_the_command_line(call, good, tmp_path):
    code, out, _ = call(
        *("run", good, "--model-name", "r3d_18", "--weights", "none", "--no-video"),
        *("--clip-len", 4, "--clip-hop", 13, "--out", tmp_path / "out", "--json"),
    )
    assert code == 0
    session = json.loads(out)
    assert session["pace"] == "full_speed"
    assert session["steps"]["first_index"] == [0, 13, 26]
    assert session["items"]["arrived"] == 30


def test_the_help_lists_the_kinds_of_sources_in_80_columns(call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = call("run", "--help")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    about = " ".join(out.partition("Options:")[0].split())
    kinds = ("video", "folder", "glob", "camera: 0", "rtsp://", "http(s)://", "udp://", "test://")
    assert [kind for kind in (*kinds, ".streams") if kind not in about] == []


@pytest.mark.parametrize(("typed", "found"), [("run --view m", ["metrics"]), ("run cl", [])])
def test_the_tab_key_completes_choices_and_leaves_files_to_the_shell(typed, found):
    """Where the command completes nothing, `complete -o default` lets the shell do it."""
    words = {"COMP_WORDS": f"headrace {typed}", "COMP_CWORD": str(len(typed.split()))}
    program = "import sys; sys.argv[0] = 'headrace'; from headrace.cli import main; main([])"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **words, "_HEADRACE_COMPLETE": "complete_bash"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.split(), done.stderr) == (found, "")


@pytest.mark.parametrize("pace", ["offline", "realtime"])
def test_ctrl_c_while_the_record_is_written_says_so(call, good, tmp_path, monkeypatch, pace):
    def impatient(session):
        raise KeyboardInterrupt

    monkeypatch.setattr("headrace.report.folder.render_html", impatient)
    code, _, err = call("run", good, *FAST, "--pace", pace, "--out", tmp_path / "out")
    words = "interrupted while the record was written; what is there is kept in"
    assert (code, err) == (130, f"headrace: {words} {tmp_path}/out\n")
    assert (tmp_path / "out" / "session.json").exists()


def test_a_disk_that_is_full_at_the_end_is_no_usage_error(call, good, tmp_path, monkeypatch):
    def full(session):
        raise ConfigError("cannot write report.html: no space left on device")

    monkeypatch.setattr("headrace.report.folder.render_html", full)
    code, out, err = call("run", good, *FAST, "--out", tmp_path / "out")
    assert (code, err) == (1, "headrace: cannot write report.html: no space left on device\n")
    assert "good.mp4 · squeezenet1_1 on cpu · complete" in out


def test_several_sources_and_a_dry_run(call, good, tmp_path):
    code, out, _ = call("run", good, good, *FAST, "--out", tmp_path / "out", "--dry-run")
    assert code == 0
    assert out.endswith(
        f"60 frames of 2 videos would be decoded; results would go to {tmp_path}/out\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--overload", "freshest"), "give --pace realtime"),
        (("--max-staleness", "200ms"), "give --pace realtime"),
        (("--max-staleness", "soon"), 'must read like "200ms"'),
        (("--clip-len", 8), "takes single frames; leave out --clip-len"),
        (("--max-seconds", "inf"), "max_seconds must be > 0, got inf; leave it out for no limit"),
        (("--clip-stride", 2), "clip_stride and clip_hop are for clips"),
        (("--clip-hop", 8, "--pace", "realtime"), "clip_stride and clip_hop are for clips"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(call, good, tmp_path, arguments, message):
    code, _, err = call("run", good, *FAST, "--out", tmp_path / "out", *arguments)
    assert code == 2
    usage = ("Usage: ", "Try 'headrace run -h'")
    [line] = [line for line in err.splitlines() if line and not line.startswith(usage)]
    assert message in line


def test_no_password_reaches_the_record(call, tmp_path, monkeypatch):
    address = "rtsp://user:s3cret@127.0.0.1:9/live"
    monkeypatch.setattr(sys, "argv", ["headrace", "run", address])
    code, out, err = call("run", address, *FAST, "--out", tmp_path / "out")
    assert code == 1
    assert "rtsp://***@127.0.0.1:9/live" in err
    written = [path.read_text() for path in (tmp_path / "out").iterdir()]
    assert not [text for text in (out, err, *written) if "s3cret" in text]


ENDING_AT_ROW_5 = """
import atexit, signal, sys, os
class Kept:
    def __del__(self):
        os.write(2, b"collected\\n")
kept = Kept()
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell ignores it
from headrace.sinks.predictions import PredictionLines
each, rows = PredictionLines.write, []
def interrupting(self, seen):
    each(self, seen)
    rows.append(seen)
    if len(rows) == 5:
        atexit.register(os.write, 2, b"exit handlers were called\\n")
        os.kill(os.getpid(), {number})
PredictionLines.write = interrupting
from headrace.cli import main
main()
"""


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "SIGTERM"]
)
def test_a_signal_ends_an_endless_run_with_its_record_whole(tmp_path, number, code):
    """A real signal to a real process, in the middle of a run that would never end.

    The interpreter collects nothing at its end, which takes many seconds on a busy machine.
    """
    command = ["run", "test://?size=64x96&rate=100", *FAST, "--out", str(tmp_path / "out")]
    done = subprocess.run(
        [sys.executable, "-c", ENDING_AT_ROW_5.format(number=int(number)), *command],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stderr
    words = f"headrace: interrupted; what was done is kept in {tmp_path}/out"
    assert done.stderr.splitlines()[-2:] == [words, "exit handlers were called"]
    assert "Traceback" not in done.stderr
    session = json.loads((tmp_path / "out" / "session.json").read_text())
    items = session["items"]
    assert session["outcome"] == "interrupted"
    assert items["arrived"] == items["delivered"] + items["dropped"] + items["in_flight"]
    lines = (tmp_path / "out" / "predictions.jsonl").read_text().splitlines()
    assert all(json.loads(line) for line in lines)


def test_without_a_terminal_each_event_of_a_camera_is_a_line_on_stderr(tmp_path):
    """A real drill: a server that stalls, goes on, is killed, and comes back with another size."""
    needs_server()
    clip = write_clip(tmp_path / "clip", SynthClip(num_frames=900, gop=15))
    wider = write_clip(tmp_path / "wider", SynthClip(num_frames=900, gop=15, size=(96, 192)))
    server = RtspServer()
    server.start(clip)

    def restart():
        server.kill()
        server.start(wider)

    drill = {
        "joined": server.stop,
        "no frame for": server.go_on,
        "resumed after": server.kill,
        "lost: ": restart,
        "reconnected after": lambda: None,
        "frames are 96x192 now, they were 96x128": lambda: run.send_signal(signal.SIGINT),
    }
    command = [sys.executable, "-c", "from headrace.cli import main; main()", "run", server.url()]
    with subprocess.Popen(
        [*command, *FAST, "--out", str(tmp_path / "out")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        try:
            assert run.stderr is not None
            lines = iter(run.stderr)
            for words, act in drill.items():
                line = next((line for line in lines if words in line), "")
                assert re.fullmatch(rf"headrace: {TIME} {re.escape(server.url())}: .*\n", line), (
                    words
                )
                act()
            rest = run.communicate(timeout=120)[1]
        finally:
            run.kill()
            server.kill()
    assert rest.endswith(f"headrace: interrupted; what was done is kept in {tmp_path}/out\n")
    assert run.returncode == 130


def test_for_machines_each_event_is_an_object_of_json(call, tmp_path):
    """`/dev/full` is a file on a full disk."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "predictions.jsonl").symlink_to("/dev/full")
    code, _, err = call(
        *("run", "test://?size=64x96&seconds=0.5", *FAST, "--log-format", "json"),
        *("--out", tmp_path / "out"),
    )
    events = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    assert code == 1
    [event] = [event for event in events if event["event"] == "failed"]
    assert re.fullmatch(r"[\d-]{10}T[\d:.]{15}\+00:00", event["time"])
    assert (event["source"], event["frames"]) == (None, 0)
    assert "predictions.jsonl: no space left on device" in event["reason"]


def test_a_run_whose_messages_nobody_reads_any_more_goes_on(call, tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "predictions.jsonl").symlink_to("/dev/full")
    read, write = os.pipe()
    os.close(read)
    with suppress(BrokenPipeError), os.fdopen(write, "w") as nobody:
        monkeypatch.setattr(sys, "stderr", nobody)
        code, out, _ = call(
            *("run", "test://?size=64x96&seconds=0.5", *FAST, "--json"),
            *("--out", tmp_path / "out"),
        )
    assert code == 1
    session = json.loads(out)
    assert (session["outcome"], session["items"]["delivered"] > 0) == ("complete", True)
