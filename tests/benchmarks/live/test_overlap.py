"""Tests of benchmarks/live/overlap.py: the same answers, one after another and with threads."""

from pathlib import Path

import pytest

from benchmarks.live.overlap import OverlapScale, measure_overlap
from benchmarks.questions import live_overlap

STAGES = ["decode", "preprocess", "model"]
WAITS = {"threads": 1, "waits": True}


def ask(asked):
    assert asked.pop("question") == "live_overlap"
    asked.pop("cores")
    return live_overlap.answer(**asked)


@pytest.mark.parametrize("waits", [True, False])
def test_pairs_hold_each_stage_both_ways(clip: Path, waits: bool) -> None:
    cases = {"a case": {"threads": 1, "waits": waits}}
    found = measure_overlap(clip, OverlapScale(cases=cases, frames=5, proved=3, repeats=2), ask)
    [case] = found.cases
    assert (case.name, len(case.pairs)) == ("a case", 2)
    for pair in case.pairs:
        assert list(pair.stage_ms) == list(pair.threaded_stage_ms) == STAGES
        assert min(pair.stage_ms.values()) > 0
        assert min(pair.threaded_stage_ms.values()) > 0


def test_other_answers_are_refused(clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_overlap, "_threaded", lambda *_: {"answers": []})
    with pytest.raises(ValueError, match="gave other answers"):
        live_overlap.answer(clip=str(clip), frames=1, proved=1, repeats=1, **WAITS)
