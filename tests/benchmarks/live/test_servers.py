"""What is shown of a stream whose server fails, and by loops over OpenCV."""

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


def served(*shown, heard=None):
    answer = {
        "began_ns": BASE - SECOND,
        "shown": list(shown),
        "heard": [(*frame(at, 0)[:1], word) for at, word in heard or []],
    }
    return Served(answer=answer, clients_ns=[BASE])


def acts(stall, restart):
    def moments(seconds):
        return tuple(frame(each, 0)[0] for each in seconds)

    return [[moments(stall)], [moments(restart)]]


def test_each_moment_is_measured_from_what_was_done():
    shown = [frame(0.5, 10), frame(4.25, 90), frame(5.8, 160), frame(8.5, 0), frame(8.6, 1)]
    heard = [(0.1, "joined"), (3.5, "stalled"), (6.1, "disconnected")]
    found = recovery("headrace", served(*shown, heard=heard), *acts((2, 4, 6), (8, 10)))
    assert found.first_picture_seconds == pytest.approx(1.5)
    assert found.noticed_seconds == (pytest.approx(1.5),)
    assert found.resumed_seconds == (pytest.approx(0.25),)
    assert found.age_after_stall_ms == (pytest.approx(5800 - 160 * FRAME_NS / 1e6),)
    assert found.again_seconds == (pytest.approx(0.5),)


def test_what_does_not_happen_before_the_next_act_never_happened():
    shown = [frame(0.5, 10), frame(6.5, 20), frame(9.0, 30)]
    found = recovery(
        "opencv_loop", served(*shown, heard=[(5.0, "lost")]), *acts((2, 4, 6), (8, 10))
    )
    assert found.noticed_seconds == (None,)
    assert found.resumed_seconds == (None,)
    assert found.age_after_stall_ms == (None,)
    assert found.again_seconds == (None,)


def test_ages_count_from_the_senders_schedule_and_the_warm_up_is_left_out():
    shown = [(round(1e9 + n * FRAME_NS + n * 1e6), n) for n in range(120)]
    answer = {"shown": shown, "versions": {"a": "1"}}
    found = count_shown("headrace", Served(answer=answer, clients_ns=[10**9]), 2.0)
    assert found.frames == 61
    assert found.age_ms.worst == pytest.approx(119, abs=1e-3)
    assert found.per_second == pytest.approx(1000 / (1000 / 30 + 1))


def test_a_way_that_shows_nothing_has_failed():
    with pytest.raises(WorkerError, match="it showed nothing"):
        count_shown("headrace", served(), 2.0)


def test_what_a_loop_over_opencv_shows_is_what_the_server_sends(clip):
    needs_server()
    if find_spec("cv2") is None:
        pytest.skip("OpenCV is not installed: make bench-setup")
    check_shown(clip, "opencv_latest", ask_worker)


def test_what_headrace_shows_is_what_the_server_sends(clip):
    needs_server()
    check_shown(clip, "headrace", answer_here)


def check_shown(clip, way, ask):
    shown = watch(way, clip, 0.1, {"seconds": 2.0}, first_frames(clip), ask)
    assert shown.failure is None
    assert shown.proved_frames > 0
    assert shown.age_ms.p50 > 0


def test_a_way_that_fails_stays_in_the_result(clip):
    needs_server()

    def ask(asked):
        raise WorkerError("no such library")

    found = measure_rivals(clip, ask, ways=("opencv_loop",))
    assert found.keeping_up.shown[0].failure == "no such library"
    assert found.recovery[0].failure == "no such library"
