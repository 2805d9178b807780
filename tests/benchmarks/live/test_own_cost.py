"""Tests of benchmarks/live/own_cost.py: the difference, frame by frame, and its two parts."""

from pathlib import Path

import pytest

from benchmarks.live.own_cost import OwnCostScale, judged, measure_own_cost
from benchmarks.questions import live_own_cost


def test_the_cost_is_the_age_less_that_of_the_bare_loop_frame_by_frame() -> None:
    bare = [[(10.0, 9.0), (20.0, 19.5)]]
    pipeline = [[(10.5, 9.1), (20.7, 19.4)]]
    case = judged("none", OwnCostScale(rate=50), bare, pipeline)
    assert case.own_ms.worst == pytest.approx(0.7)
    assert case.own_ms.p50 == pytest.approx(0.5)
    assert case.stages_ms.worst == pytest.approx(0.1)
    assert case.hand_over_ms.worst == pytest.approx(0.8)
    assert case.repeats_p50_ms == (pytest.approx(0.6),)
    assert case.late_frames == 0
    assert judged("none", OwnCostScale(rate=60), bare, pipeline).late_frames == 1


def test_both_ways_are_timed_on_frames_that_were_proved_equal(clip: Path) -> None:
    def ask(asked):
        assert asked.pop("question") == "live_own_cost"
        asked.pop("cores")
        return live_own_cost.answer(**asked)

    scale = OwnCostScale(models=("none",), rate=60, frames=4, proved=3, repeats=2)
    found = measure_own_cost(clip, scale, ask)
    [case] = found.cases
    assert case.own_ms.count == 8
    assert len(case.repeats_p50_ms) == 2
    assert case.proved_frames == 3
    assert found.provenance.configuration["rate"] == 60


def test_frames_that_differ_are_refused(clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def other(*_):
        yield from [("another", (1.0, 1.0))] * 3

    monkeypatch.setattr(live_own_cost, "_pipeline", other)
    with pytest.raises(ValueError, match="gave other frames"):
        live_own_cost.answer(clip=str(clip), rate=60, model="none", frames=1, proved=3, repeats=1)
