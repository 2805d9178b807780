"""Stability benchmark: CVs, order of the candidates, and findings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.records import local_provenance, timing
from headrace.bench.model_work import ModelWork
from headrace.bench.stability import STABILITY, Candidate, StabilityRecord, StabilityRepetition
from headrace.bench.stability_search import (
    _needed_seconds,
    _possible_sizes,
    candidates,
    fps_by_iteration,
    run_candidate,
    warm_up_of,
)
from headrace.errors import ConfigError
from headrace.runs.run_options import ComputeOptions
from headrace.runtime.clock import SYSTEM_CLOCK
from headrace.video.stream_index import StreamIndex
from runs.tiny import tiny_classifier
from runtime.in_time import in_time

SECOND = 10**9


@pytest.mark.parametrize(
    ("out_ns", "frames", "expected"),
    [
        # FPS of an iteration: its frames ÷ time since the previous result.
        ([0, SECOND, 3 * SECOND, 7 * SECOND // 2], [4] * 4, ([4, 2, 8], 12, 7 * SECOND // 2)),
        # Shorter batches do not count.
        ([0, SECOND, 3 * SECOND, 4 * SECOND], [4, 4, 1, 4], ([4, 4], 8, 2 * SECOND)),
        # Simultaneous results count as one nanosecond apart.
        ([5, 5], [4, 4], ([4e9], 4, 1)),
    ],
)
def test_fps_of_iterations(out_ns, frames, expected):
    assert fps_by_iteration(out_ns, frames, 4) == expected


def test_cv_is_standard_deviation_over_mean():
    series = turn(1, 1, 0.1, 30).model_copy(update={"fps": (10, 20, 30)})
    assert series.cv == pytest.approx((200 / 3) ** 0.5 / 20)
    assert series.interval_cv == pytest.approx(0.4635, abs=1e-4)


@pytest.mark.parametrize(("batch_size", "queue_depth"), [(1, 1), (4, 3)])
def test_a_short_video_restarts_until_there_are_enough_full_batches(clip, batch_size, queue_depth):
    index = StreamIndex.scan(clip(6, size=(64, 64)))
    candidate = Candidate(batch_size=batch_size, queue_depth=queue_depth)
    work = ModelWork(tiny_classifier(), ComputeOptions())
    turn = in_time(lambda: run_candidate(work, index, candidate, iterations=25, clock=SYSTEM_CLOCK))
    assert turn.candidate == candidate
    assert len(turn.fps) == 25
    assert turn.warm_up == warm_up_of(queue_depth) >= 10
    assert turn.cv > 0
    assert turn.frames_per_second > 0


def test_batch_sizes_larger_than_the_video_are_skipped():
    assert _possible_sizes((1, 8, 16), 8, "a.mp4") == (1, 8)
    with pytest.raises(
        ConfigError, match=r"a\.mp4 has 8 frames, fewer than the smallest batch of 16"
    ):
        _possible_sizes((16, 32), 8, "a.mp4")


BATCHES, DEPTHS = (1, 2, 4, 8, 16), (1, 2, 4, 8)


def at(batch_size, queue_depth):
    return Candidate(batch_size=batch_size, queue_depth=queue_depth)


def searched(holds, batch_sizes=BATCHES, queue_depths=DEPTHS):
    """Return candidate -> is steady, for all candidates of a search on a simulated system."""
    held = {}
    for candidate in candidates(batch_sizes, queue_depths, held):
        assert candidate not in held, "never twice"
        held[candidate] = holds(candidate)
    return held


def smallest(held):
    return min(candidate for candidate, holds in held.items() if holds)


@given(batch_size=st.sampled_from(BATCHES), queue_depth=st.sampled_from(DEPTHS))
def test_the_smallest_candidate_is_found_in_few_trials(batch_size, queue_depth):
    tried = searched(
        lambda c: (
            c.batch_size > batch_size
            or (c.batch_size == batch_size and c.queue_depth >= queue_depth)
        )
    )
    assert smallest(tried) == at(batch_size, queue_depth)
    assert len(tried) <= len(BATCHES) + 2


def test_batches_grow_with_the_deepest_queues_then_the_depth_is_bisected():
    tried = searched(lambda c: c.batch_size >= 4 and c.queue_depth >= 2)
    assert list(tried) == [at(1, 8), at(2, 8), at(4, 8), at(4, 2), at(4, 1)]
    assert smallest(tried) == at(4, 2)


def test_without_a_steady_candidate_it_ends_with_the_largest():
    assert list(searched(lambda c: False)) == [at(batch_size, 8) for batch_size in BATCHES]


@given(
    batch_sizes=st.lists(st.integers(1, 64), min_size=1, max_size=6),
    queue_depths=st.lists(st.integers(1, 64), min_size=1, max_size=6),
    seed=st.randoms(use_true_random=False),
)
def test_it_ends_on_inconsistent_systems(batch_sizes, queue_depths, seed):
    tried = searched(lambda c: seed.random() < 0.5, batch_sizes, queue_depths)
    assert all(c.batch_size in batch_sizes and c.queue_depth in queue_depths for c in tried)


def turn(batch_size, queue_depth, cv, rate, *, others=0.0):
    """Return a repetition with a mean FPS of `rate` and this CV."""
    options = {"batch_size": batch_size, "queue_depth": queue_depth}
    return StabilityRepetition(
        warm_up=27 if queue_depth == 8 else 10,
        fps=(rate * (1 - cv), rate * (1 + cv)) * 50,
        frames_per_second=rate,
        **options | timing(10, others=others),
    )


def recorded(*turns, **changed):
    usual = {
        **{"target": 0.05, "iterations": 100, "repeats": 1, "run_depth": 2, "max_seconds": 90},
        **{"model_seconds": 0.5, "left_out": (), "unbegun": None},
    }
    return StabilityRecord(provenance=local_provenance(), turns=turns, **{**usual, **changed})


def repeated(*cvs):
    return recorded(*[turn(1, 2, cv, 30) for cv in cvs], repeats=len(cvs))


USUAL = (turn(1, 8, 0.2, 30), turn(2, 8, 0.03, 50), turn(2, 2, 0.04, 48), turn(2, 1, 0.09, 40))
BURST = turn(1, 2, 0.5, 30).model_copy(update={"fps": (10.0,) * 99 + (4000.0,)})


def test_findings_on_candidates(check_pages):
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
    check_pages(STABILITY, cases)


def test_the_series_is_of_the_repetition_nearest_the_median():
    [row] = STABILITY.rows(repeated(0.5, 0.1, 0.2))
    assert row.cv.median == pytest.approx(0.2)
    assert max(row.fps) == pytest.approx(36)


def test_the_predicted_time_of_a_candidate_follows_its_frames():
    same = Candidate(batch_size=1, queue_depth=8)
    turns = [turn(1, 8, 0.2, 30)]
    assert _needed_seconds(turns, same, 3) == 30
    assert _needed_seconds(turns, Candidate(batch_size=4, queue_depth=8), 3) == 120
    assert _needed_seconds(turns, Candidate(batch_size=1, queue_depth=1), 3) < 30
