"""What bench stability says of its figures, and what it leaves open."""

import pytest

from bench.shown import check_shown, made
from headrace.bench.stability import (
    StabilityConfig,
    StabilityRecord,
    _needed_seconds,
    announce,
    rows_of,
)
from headrace.bench.stability_report import STABILITY
from headrace.bench.stability_search import Candidate, StabilityTurn


def turn(batch_size, queue_depth, cv, rate, *, others=0.0):
    """A turn whose FPS is `rate` in the mean, with this CV."""
    return StabilityTurn(
        seconds=10,
        cpu_seconds=10,
        others_cpu_seconds=10 * others,
        batch_size=batch_size,
        queue_depth=queue_depth,
        warm_up=27 if queue_depth == 8 else 10,
        fps=(rate * (1 - cv), rate * (1 + cv)) * 50,
        frames_per_second=rate,
    )


def recorded(*turns, **changed):
    usual = {
        **{"target": 0.05, "iterations": 100, "repeats": 1, "run_depth": 2, "max_seconds": 90},
        **{"model_seconds": 0.5, "left_out": (), "unbegun": None},
    }
    return StabilityRecord(provenance=made(), turns=turns, **{**usual, **changed})


def repeated(*cvs):
    return recorded(*[turn(1, 2, cv, 30) for cv in cvs], repeats=len(cvs))


USUAL = (turn(1, 8, 0.2, 30), turn(2, 8, 0.03, 50), turn(2, 2, 0.04, 48), turn(2, 1, 0.09, 40))
BURST = turn(1, 2, 0.5, 30).model_copy(update={"fps": (10.0,) * 99 + (4000.0,)})


def test_the_smallest_candidate_that_is_steady_is_named_like_this():
    deep = (turn(1, 8, 0.2, 30), turn(2, 8, 0.03, 50), turn(2, 2, 0.3, 48))
    larger = (turn(1, 8, 0.06, 44), turn(2, 8, 0.125, 62), turn(4, 8, 0.138, 76))
    cases = {
        "queues as deep as those of a run": recorded(*USUAL),
        "queues deeper than those of a run": recorded(*deep),
        "the smallest is steady": recorded(turn(1, 1, 0.01, 30)),
        "none is steady": recorded(turn(1, 8, 0.2, 30), turn(2, 8, 0.081, 31)),
        "larger batches are less steady": recorded(*larger),
        "turns on both sides of the target": repeated(0.04, 0.3, 0.03),
        "turns on one side of it": repeated(0.01, 0.02),
        "other programs ran": recorded(turn(1, 2, 0.01, 30, others=3)),
        "rates differ": recorded(turn(1, 2, 0.01, 30), turn(1, 2, 0.01, 60), repeats=2),
        "cut short": recorded(*USUAL, left_out=(8, 16), unbegun=(4, 8)),
        "few iterations": recorded(*USUAL, iterations=20),
        "results at once": recorded(BURST),
    }
    check_shown(STABILITY, cases)


def test_the_series_shown_is_that_of_the_turn_nearest_the_median():
    [row] = rows_of(repeated(0.5, 0.1, 0.2))
    assert row.cv.median == pytest.approx(0.2)
    assert max(row.fps) == pytest.approx(36)


def test_how_long_it_can_take_is_said_first():
    said = announce(StabilityConfig(videos=("a",)))
    assert said.startswith("Time: about 90.0 s (--max-seconds), more only if the first candidate")


def test_the_time_a_candidate_needs_is_that_of_its_frames():
    same = Candidate(batch_size=1, queue_depth=8)
    turns = [turn(1, 8, 0.2, 30)]
    assert _needed_seconds(turns, same, 3) == 30
    assert _needed_seconds(turns, Candidate(batch_size=4, queue_depth=8), 3) == 120
    assert _needed_seconds(turns, Candidate(batch_size=1, queue_depth=1), 3) < 30
