"""Streams whose server fails, and frames shown by headrace and by loops over OpenCV."""

from importlib.util import find_spec

import pytest

from benchmarks.live.recovering import FRAME_NS, Served, recovery
from benchmarks.live.rivals import count_shown, first_frames, measure_rivals, watch
from benchmarks.worker import WorkerError, answer_here, ask_worker
from live.rtsp import needs_server

SECOND = 1_000_000_000
BASE = 50 * SECOND


def frame(at_seconds, number):
    return BASE + round(at_seconds * SECOND), number


def served(*shown, losses=None):
    answer = {
        "began_ns": BASE - SECOND,
        "shown": list(shown),
        "losses": [(*frame(at, 0)[:1], kind) for at, kind in losses or []],
    }
    return Served(answer=answer, clients_ns=[BASE])


def events(stall, restart):
    def moments(seconds):
        return tuple(frame(at, 0)[0] for at in seconds)

    return [[moments(stall)], [moments(restart)]]


def test_each_time_is_measured_from_its_event():
    shown = [frame(0.5, 10), frame(4.25, 90), frame(5.8, 160), frame(8.5, 0), frame(8.6, 1)]
    losses = [(0.1, "joined"), (3.5, "stalled"), (6.1, "disconnected")]
    row = recovery("headrace", served(*shown, losses=losses), *events((2, 4, 6), (8, 10)))
    assert row.first_picture_seconds == pytest.approx(1.5)
    assert row.noticed_seconds == (pytest.approx(1.5),)
    assert row.resumed_seconds == (pytest.approx(0.25),)
    assert row.age_after_stall_ms == (pytest.approx(5800 - 160 * FRAME_NS / 1e6),)
    assert row.again_seconds == (pytest.approx(0.5),)


def test_reactions_after_the_next_event_are_not_counted():
    shown = [frame(0.5, 10), frame(6.5, 20), frame(9.0, 30)]
    late = served(*shown, losses=[(5.0, "lost")])
    row = recovery("opencv_loop", late, *events((2, 4, 6), (8, 10)))
    assert row.noticed_seconds == (None,)
    assert row.resumed_seconds == (None,)
    assert row.age_after_stall_ms == (None,)
    assert row.again_seconds == (None,)


def test_ages_count_from_the_senders_schedule_and_the_warm_up_is_left_out():
    shown = [(round(1e9 + n * FRAME_NS + n * 1e6), n) for n in range(120)]
    answer = {"shown": shown, "versions": {"a": "1"}}
    row = count_shown("headrace", Served(answer=answer, clients_ns=[10**9]), 2.0)
    assert row.frames == 61
    assert row.age_ms.worst == pytest.approx(119, abs=1e-3)
    assert row.per_second == pytest.approx(1000 / (1000 / 30 + 1))


def test_a_variant_without_shown_frames_fails():
    with pytest.raises(WorkerError, match="no frame was shown"):
        count_shown("headrace", served(), 2.0)


@pytest.mark.slow
def test_a_loop_over_opencv_shows_the_frames_of_the_server(clip):
    needs_server()
    if find_spec("cv2") is None:
        pytest.skip("OpenCV is not installed: make bench-setup")
    check_shown(clip, "opencv_latest", ask_worker)


@pytest.mark.slow
def test_headrace_shows_the_frames_of_the_server(clip):
    needs_server()
    check_shown(clip, "headrace", answer_here)


def check_shown(clip, way, ask):
    shown = watch(way, clip, 0.1, {"seconds": 2.0}, first_frames(clip), ask)
    assert shown.failure is None
    assert shown.proved_frames > 0
    assert shown.age_ms.p50 > 0


def test_a_failed_variant_stays_in_the_result(clip):
    needs_server()

    def ask(request):
        raise WorkerError("no such library")

    result = measure_rivals(clip, ask, ways=("opencv_loop",))
    assert result.keeping_up.shown[0].failure == "no such library"
    assert result.recovery[0].failure == "no such library"
