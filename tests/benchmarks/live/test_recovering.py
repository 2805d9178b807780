"""Tests of benchmarks/live/recovering.py: what moments say of a stall and of a restart."""

import pytest

from benchmarks.live.recovering import Acts, judged
from benchmarks.live.serving import FRAME_NS, Served

SECOND = 1_000_000_000
BASE = 50 * SECOND


def frame(at_seconds: float, number: int) -> tuple[int, int]:
    return BASE + round(at_seconds * SECOND), number


def served(*shown: tuple[int, int], heard: list[tuple[float, str]] | None = None) -> Served:
    answer = {
        "began_ns": BASE - SECOND,
        "shown": list(shown),
        "heard": [(*frame(at, 0)[:1], word) for at, word in heard or []],
    }
    return Served(answer=answer, clients_ns=[BASE])


def acts(stall: tuple[float, float, float], restart: tuple[float, float]) -> Acts:
    def moments(seconds: tuple[float, ...]) -> tuple[int, ...]:
        return tuple(frame(each, 0)[0] for each in seconds)

    return Acts(stalls=[moments(stall)], restarts=[moments(restart)])  # type: ignore[list-item]


def test_each_moment_is_measured_from_what_was_done() -> None:
    shown = [frame(0.5, 10), frame(4.25, 90), frame(5.8, 160), frame(8.5, 0), frame(8.6, 1)]
    heard = [(0.1, "joined"), (3.5, "stalled"), (6.1, "disconnected")]
    found = judged("headrace", served(*shown, heard=heard), acts((2, 4, 6), (8, 10)))
    assert found.first_picture_seconds == pytest.approx(1.5)
    assert found.noticed_seconds == (pytest.approx(1.5),)
    assert found.resumed_seconds == (pytest.approx(0.25),)
    assert found.age_after_stall_ms == (pytest.approx(5800 - 160 * FRAME_NS / 1e6),)
    assert found.again_seconds == (pytest.approx(0.5),)


def test_what_does_not_happen_before_the_next_act_never_happened() -> None:
    shown = [frame(0.5, 10), frame(6.5, 20), frame(9.0, 30)]
    found = judged("opencv_loop", served(*shown, heard=[(5.0, "lost")]), acts((2, 4, 6), (8, 10)))
    assert found.noticed_seconds == (None,)
    assert found.resumed_seconds == (None,)
    assert found.age_after_stall_ms == (None,)
    assert found.again_seconds == (None,)
