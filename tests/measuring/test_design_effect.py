"""What batches are worth is counted in them: frames of one GOP that meet, beyond chance."""

import numpy as np
import pytest

from headrace import Bursts, Population, ShuffledFrames, UniformFrames
from headrace.measuring.design_effect import DesignEffectMeter

MANY = Population.of([*[np.full(50, 12)] * 20, np.array([7, 11])])
"""Its frames are no multiple of lanes and bursts, so that lanes are not in step."""
BATCH = 32


def counted(sampler, batches, population=MANY):
    counter = DesignEffectMeter(population, sampler, BATCH)
    order = sampler.order(population, 0)
    for number in range(batches):
        counter.count(order[number * BATCH : (number + 1) * BATCH])
    return counter


@pytest.mark.parametrize(
    ("sampler", "effect", "inflation"),
    [
        (UniformFrames(), 1, 1),
        (ShuffledFrames(), 1, 1),
        (Bursts(frames_per_burst=6, lanes=32), 1, 6),
        (Bursts(frames_per_burst=6, lanes=16), 1 + 2 * 5 / 6 / 2, 6),
        (Bursts(frames_per_burst=2, lanes=32), 1, 2),
    ],
)
def test_what_is_counted_is_what_was_predicted(sampler, effect, inflation):
    """200 batches of 32 in 1,000 GOPs: chance moves each of 8 lags by some 0.005."""
    found = counted(sampler, 200)
    assert found.design_effect(1.0) == pytest.approx(effect, abs=0.1)
    assert found.inflation(1.0) == pytest.approx(inflation, abs=0.4)
    assert found.inflation(0.5) == pytest.approx(1 + (found.inflation(1.0) - 1) / 2)


def test_too_few_batches_tell_nothing_of_many():
    bursts = Bursts(frames_per_burst=6, lanes=32)
    assert counted(bursts, 10).inflation(0.5) is None
    assert counted(bursts, 11).inflation(0.5) > 1
    assert counted(bursts, 1).design_effect(0.5) is not None
    assert counted(bursts, 0).design_effect(0.5) is None


def test_the_last_batch_of_an_epoch_is_left_out_if_it_is_smaller():
    counter, other = (counted(UniformFrames(), 1) for _ in range(2))
    counter.count(np.arange(BATCH - 1))
    assert counter.inflation(0.5) is None
    assert counter.design_effect(0.5) == other.design_effect(0.5)


def test_of_a_single_gop_nothing_is_told():
    found = counted(UniformFrames(), 3, Population.of([np.array([200])]))
    assert (found.design_effect(0.5), found.inflation(0.5)) == (None, None)
