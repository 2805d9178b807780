"""Tests of benchmarks/live/overload.py: too many frames, and none of them lost without a cause."""

from pathlib import Path

import pytest

from benchmarks.live.overload import OverloadScale, measure_overload
from benchmarks.questions import live_overload
from benchmarks.runner import WorkerError


def ask(asked):
    assert asked.pop("question") == "live_overload"
    asked.pop("cores")
    return live_overload.answer(**asked)


def test_frames_are_dropped_by_cause_and_memory_is_watched(clip: Path) -> None:
    scale = OverloadScale(seconds=3.0, warm_up_seconds=0.5, max_staleness_ms=5000)
    found = measure_overload(clip, scale, ask)
    assert found.is_conserved
    assert found.drops["decode: overflow"] > 0
    assert found.age_ms.count == found.delivered > 0
    assert len(found.rss_bytes.values) == len(found.rss_bytes.at_seconds) > 0
    assert found.others_share is not None


def test_a_run_that_shows_nothing_is_no_result(clip: Path) -> None:
    answer = {"meter": {}, "ages_ms": []}
    with pytest.raises(WorkerError, match="no frame was shown"):
        measure_overload(clip, OverloadScale(), lambda asked: answer)
