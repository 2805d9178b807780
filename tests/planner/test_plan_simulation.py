"""A simulated plan costs what the formulas predict, and obeys the limits they ignore."""

import numpy as np
import pytest

from headrace import Bursts, Population, ShuffledFrames, UniformFrames
from headrace.planner.strategy_cost import simulate
from headrace.sampling.decode_cost import burst_cost, lookahead_cost, lookahead_for

CAMERA = Population.of([np.full(20, 30)] * 20)
EVERYTHING = 10**9


def simulated(sampler, lookahead, capacity=EVERYTHING, batch_size=32):
    return simulate(CAMERA, sampler, lookahead=lookahead, capacity=capacity, batch_size=batch_size)


@pytest.mark.parametrize("lookahead", [400, 1200, 4000])
def test_without_a_memory_limit_the_simulation_equals_the_formula(lookahead):
    formula = lookahead_cost(CAMERA.gop_lengths, lookahead)
    cost = simulated(UniformFrames(), lookahead)
    assert cost.amplification == pytest.approx(formula.amplification, rel=0.1)
    assert cost.seeks == pytest.approx(formula.seeks, rel=0.1)
    # The current batch is held too.
    assert cost.held_frames == pytest.approx(formula.held_frames + 16, rel=0.2)


def test_naive_access_decodes_half_of_a_gop_and_bursts_alone_are_their_formula():
    cost = simulated(UniformFrames(), 32, capacity=0)
    assert cost.amplification == pytest.approx(15.5, rel=0.2)
    assert cost.seeks == pytest.approx(1, rel=0.1)
    cost = simulated(Bursts(frames_per_burst=4, lanes=32), 3 * 32 + 1)
    formula = burst_cost(CAMERA.gop_lengths, 4, 32)
    assert cost.amplification == pytest.approx(formula.amplification, rel=0.1)


def test_a_limit_on_held_frames_is_obeyed_and_raises_the_cost():
    lookahead = 4000
    free = simulated(ShuffledFrames(), lookahead)
    tight = simulated(ShuffledFrames(), lookahead, capacity=1000)
    assert free.held_frames > 1000 + 32 >= tight.held_frames
    assert tight.amplification > 1.5 * free.amplification


def test_a_shuffle_with_a_shorter_lookahead_decodes_less_in_the_same_memory():
    """All waiting frames of a shuffle differ, so they fill the memory sooner."""
    long, short = (
        lookahead_for(CAMERA.gop_lengths, 4500, each_once=each_once) for each_once in (False, True)
    )
    assert short < long
    cost = simulated(ShuffledFrames(), short, capacity=4800)
    assert cost.amplification < 0.8 * simulated(ShuffledFrames(), long, capacity=4800).amplification


def test_a_set_of_one_batch_is_simulated_epoch_after_epoch():
    one = Population.of([np.array([30, 40])])
    cost = simulate(one, ShuffledFrames(), lookahead=70, capacity=70, batch_size=70)
    assert 0 < cost.amplification <= 1
    assert 0 < cost.held_frames <= 70
