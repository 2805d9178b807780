"""Live runs of `headrace run`."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime

import pyarrow.parquet
import pytest

from cli.kit import FAST, MAIN, SQUEEZENET, recorded
from headrace.cli.run import progress_text, waiting_text
from headrace.cli.run_flags import TOKEN_VARIABLE, web_options
from headrace.errors import ConfigError
from headrace.runs.live.status_board import Notice
from headrace.testing.synth import SynthClip, write_clip
from live.rtsp import RtspServer, needs_server
from report.recorded import step_of
from runs.kit import annotated_frames

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
TOKEN = "a-token-of-a-test-0123"


@pytest.fixture
def good(tmp_path):
    return write_clip(tmp_path / "good", SynthClip(num_frames=30))


@pytest.fixture
def full_disk(tmp_path):
    """Output folder whose predictions are written to `/dev/full`, a full disk."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "predictions.jsonl").symlink_to("/dev/full")
    return tmp_path / "out"


def test_a_file_in_real_time_accounts_for_every_frame(printed, good, tmp_path):
    paced = ("--pace", "realtime", "--overload", "keep-all")
    out = printed("run", good, *FAST, *paced, "--out", tmp_path / "out")
    assert "= 30 delivered + 0 dropped + 0 in flight" in " ".join(out.split())
    assert "median from due time" in out
    session = recorded(tmp_path / "out")
    assert (session["kind"], session["pace"]) == ("live", "schedule")


def test_clip_options_set_the_clips_of_a_video_model(as_json, good, tmp_path):
    session = as_json(
        *("run", good, "--model-name", "r3d_18", "--weights", "none", "--no-video"),
        *("--clip-len", 2, "--clip-hop", 13, "--out", tmp_path / "out"),
    )
    assert (session["pace"], session["items"]["arrived"]) == ("full_speed", 30)
    assert session["steps"]["first_index"] == [0, 13, 26]


def test_the_progress_line_has_the_rate_of_all_frames_and_the_source_it_waits_for():
    """Steps of a live run have different numbers of frames."""
    steps = [
        step_of(k, started_ms=1e3 * k, work_ms={}, total_ms=10.0, first_index=0, frames=1 + k % 4)
        for k in range(5)
    ]
    assert progress_text(11, steps) == "11 frames, 2.5 frames/s"
    notice = Notice(
        time=datetime(2026, 1, 31, 12, 0, 7, tzinfo=UTC),
        **{"event": "stalled", "source": "udp://127.0.0.1:5001", "reason": "no frame for 2 s"},
    )
    assert waiting_text(11, notice) == (
        "11 frames, waiting for udp://127.0.0.1:5001 since 12:00:07Z"
    )


@pytest.mark.slow
def test_annotate_and_run_detect_objects_in_a_stream(call, tmp_path):
    """Both have bounded latency."""
    needs_server()
    server = RtspServer()
    server.start(write_clip(tmp_path / "clip", SynthClip(num_frames=900, gop=15)))
    model = ("--model-name", "ssdlite320_mobilenet_v3_large", "--weights", "none", "--threads", 1)
    ways = {
        "annotate": ("--threshold", 0, "--max-boxes", 2, "--batch-size", 1),
        "run": ("--predictions", "parquet", "--batch-size", 1, "--max-staleness", "5s"),
    }
    try:
        for command, own in ways.items():
            out = tmp_path / command
            words = (command, server.url(), *model, *own, "--max-steps", 6, "--out", out, "--json")
            code, stdout, err = call(*words)
            assert (code, "joined" in err) == (0, True), err
            session = json.loads(stdout)
            assert (session["kind"], session["pace"]) == ("live", "arrival")
            assert session["items"]["delivered"] == 6
            steps = session["steps"]
            ended = [a + b for a, b in zip(steps["started_ms"], steps["total_ms"], strict=True)]
            ages = [a - b for a, b in zip(ended, steps["arrived_ms"], strict=True)]
            assert max(ages) < 5000
            images = recorded(out, "coco.json")["images"]
            assert len(images) == 6
            assert {image["source"] for image in images} == {server.url()}
            assert len(annotated_frames(out)) == 6
            rows = pyarrow.parquet.read_table(out / "boxes.parquet").to_pylist()
            assert len(rows) == (12 if command == "annotate" else 0)
    finally:
        server.kill()


@pytest.mark.slow
def test_each_event_of_a_stream_is_a_line_on_stderr(tmp_path):
    """The server stalls, resumes, is killed, and restarts with another frame size."""
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
        "frames changed from 96x128 to 96x192": lambda: run.send_signal(signal.SIGINT),
    }
    command = [sys.executable, "-c", MAIN, "run", server.url(), *FAST, "--out", tmp_path / "out"]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as run:
        try:
            for words, act in drill.items():
                line = next((line for line in run.stderr if words in line), "")
                assert re.fullmatch(f"headrace: {TIME} {re.escape(server.url())}: .*\n", line), (
                    words
                )
                act()
            rest = run.communicate(timeout=120)[1]
        finally:
            run.kill()
            server.kill()
    assert rest.endswith(f"headrace: interrupted; completed work is kept in {tmp_path}/out\n")
    assert run.returncode == 130


def test_log_format_json_writes_each_event_as_an_object(call, full_disk):
    source = ("run", "test://?size=64x96&seconds=0.5")
    code, _, err = call(*source, *FAST, "--log-format", "json", "--out", full_disk)
    events = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    [event] = [event for event in events if event["event"] == "failed"]
    assert (code, event["source"], event["frames"]) == (1, None, 0)
    assert re.fullmatch(r"[\d-]{10}T[\d:.]{15}\+00:00", event["time"])
    assert "predictions.jsonl: no space left on device" in event["reason"]


def test_a_run_continues_after_stderr_is_closed(call, full_disk, monkeypatch):
    read, write = os.pipe()
    os.close(read)
    source = ("run", "test://?size=64x96&seconds=0.5")
    with suppress(BrokenPipeError), os.fdopen(write, "w") as closed_pipe:
        monkeypatch.setattr(sys, "stderr", closed_pipe)
        code, out, _ = call(*source, *FAST, "--json", "--out", full_disk)
    session = json.loads(out)
    found = code, session["outcome"], session["items"]["delivered"] > 0
    assert found == (1, "complete", True)


@pytest.fixture
def no_token(monkeypatch):
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)


def options(view="web", *, address="127.0.0.1", hosts=None, file=None, silence="10s"):
    typed = {"view": view, "address": address, "hosts": hosts, "web_token_file": file}
    return web_options({**typed, "health_timeout": silence})


def test_flags_become_web_options(no_token):
    assert [options(view).with_page for view in ("web", "metrics")] == [True, False]
    assert options("none") is options("window") is None
    page = options("metrics", hosts=["cam.example"], silence="1.5s")
    assert (page.hosts, page.health_timeout_seconds) == (("cam.example",), 1.5)


def test_the_token_is_read_from_a_file_or_from_the_environment(no_token, tmp_path, monkeypatch):
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    assert options(file=tmp_path / "token").token == TOKEN
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    assert options().token == TOKEN
    with pytest.raises(ConfigError, match="leave one out"):
        options(file=tmp_path / "token")


@pytest.mark.parametrize("view", ["web", "metrics"])
def test_a_given_token_is_neither_printed_nor_recorded(call, tmp_path, monkeypatch, view):
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    code, out, err = call(
        *("run", "test://?size=64x96&seconds=0.1", *SQUEEZENET, "--no-video", "--view", view),
        *("--web-address", "0.0.0.0", "--web-port", "0", "--out", tmp_path / "out"),
    )
    written = [path.read_bytes().decode(errors="replace") for path in (tmp_path / "out").iterdir()]
    assert (code, "with ?token= and your token" in out) == (0, True)
    assert not [text for text in (out, err, *written) if TOKEN in text]
