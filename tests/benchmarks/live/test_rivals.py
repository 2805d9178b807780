"""Tests of benchmarks/live/rivals.py: ages by the sender's clock, of a real server's frames."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.live.rivals import RivalsScale, Watching, counted, measure_rivals
from benchmarks.live.serving import FRAME_NS, Served
from benchmarks.questions import live_stream
from benchmarks.runner import Ask, WorkerError, ask_worker
from live.rtsp import needs_server

ASKED = ("way", "url", "seconds", "pictures")


def test_ages_count_from_the_senders_schedule_and_the_warm_up_is_left_out() -> None:
    shown = [(round(1e9 + n * FRAME_NS + n * 1e6), n) for n in range(120)]
    answer = {"shown": shown, "versions": {"a": "1"}}
    found = counted("headrace", Served(answer=answer, clients_ns=[10**9]), 2.0, 8)
    assert found.frames == 61
    assert found.age_ms is not None
    assert found.age_ms.worst == pytest.approx(119, abs=1e-3)
    assert found.per_second == pytest.approx(1000 / (1000 / 30 + 1))


def test_what_a_loop_over_opencv_shows_is_what_the_server_sends(clip: Path) -> None:
    needs_server()
    if find_spec("cv2") is None:
        pytest.skip("OpenCV is not installed: make bench-setup")
    check_shown(clip, "opencv_latest", ask_worker)


def test_what_headrace_shows_is_what_the_server_sends(clip: Path) -> None:
    def ask(asked):
        return live_stream.answer(**{k: v for k, v in asked.items() if k in ASKED})

    needs_server()
    check_shown(clip, "headrace", ask)


def check_shown(clip: Path, way: str, ask: Ask) -> None:
    shown, meter = Watching(clip, 0.1, ask).shown(way, {"seconds": 2.0})
    assert shown.failure is None
    assert shown.proved_frames > 0
    assert shown.age_ms is not None
    assert shown.age_ms.p50 > 0
    assert "cpu_seconds" in meter


def test_a_way_that_fails_stays_in_the_result(clip: Path) -> None:
    needs_server()

    def ask(asked):
        raise WorkerError("no such library")

    found = measure_rivals(clip, RivalsScale(ways=("opencv_loop",)), ask)
    assert found.keeping_up.shown[0].failure == "no such library"
    assert found.recovery[0].failure == "no such library"
