"""A rehearsed plan costs what formulas say, and knows the limits that they leave out."""

import numpy as np
import pytest

from headrace import Bursts, Population, ShuffledFrames, UniformFrames
from headrace.planner.plan_simulation import rehearse
from headrace.sampling.decode_cost import burst_cost, lookahead_cost, lookahead_for

CAMERA = Population.of([np.full(20, 30)] * 20)
EVERYTHING = 10**9


def rehearsed(sampler, lookahead, capacity=EVERYTHING, batch_size=32):
    return rehearse(CAMERA, sampler, lookahead=lookahead, capacity=capacity, batch_size=batch_size)


@pytest.mark.parametrize("lookahead", [400, 1200, 4000])
def test_with_room_for_all_it_is_the_formula(lookahead):
    formula = lookahead_cost(CAMERA.gop_lengths, lookahead)
    found = rehearsed(UniformFrames(), lookahead)
    assert found.amplification == pytest.approx(formula.amplification, rel=0.1)
    assert found.seeks == pytest.approx(formula.seeks, rel=0.1)
    # The batch at hand is held too.
    assert found.held_frames == pytest.approx(formula.held_frames + 16, rel=0.2)


def test_naive_access_decodes_half_of_a_gop_and_bursts_alone_are_their_formula():
    found = rehearsed(UniformFrames(), 32, capacity=0)
    assert found.amplification == pytest.approx(15.5, rel=0.2)
    assert found.seeks == pytest.approx(1, rel=0.1)
    found = rehearsed(Bursts(frames_per_burst=4, lanes=32), 3 * 32 + 1)
    formula = burst_cost(CAMERA.gop_lengths, 4, 32)
    assert found.amplification == pytest.approx(formula.amplification, rel=0.1)


def test_a_limit_on_what_is_held_is_kept_and_costs():
    lookahead = 4000
    free = rehearsed(ShuffledFrames(), lookahead)
    tight = rehearsed(ShuffledFrames(), lookahead, capacity=1000)
    assert free.held_frames > 1000 + 32 >= tight.held_frames
    assert tight.amplification > 1.5 * free.amplification


def test_a_shuffle_that_looks_less_far_ahead_decodes_less_in_the_same_memory():
    """What waits is all different in a shuffle, so that it fills the memory sooner."""
    far, less_far = (
        lookahead_for(CAMERA.gop_lengths, 4500, each_once=each_once) for each_once in (False, True)
    )
    assert less_far < far
    found = rehearsed(ShuffledFrames(), less_far, capacity=4800)
    assert found.amplification < 0.8 * rehearsed(ShuffledFrames(), far, capacity=4800).amplification


def test_a_set_of_one_batch_is_rehearsed_epoch_after_epoch():
    one = Population.of([np.array([30, 40])])
    found = rehearse(one, ShuffledFrames(), lookahead=70, capacity=70, batch_size=70)
    assert 0 < found.amplification <= 1
    assert 0 < found.held_frames <= 70
