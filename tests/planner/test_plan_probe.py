"""A probe delivers real batches; it counts their cost and their design effect."""

import numpy as np
import pytest

from headrace import Bursts, Population, ShuffledFrames, UniformFrames
from headrace.planner.strategy_cost import DesignEffectMeter, run_probe


@pytest.fixture
def probe(opened, copies, store):
    """Return a function: sampler, lookahead -> PlanProbe on 96 small frames."""
    videos = opened(*copies())

    usual = {"size": (32, 32), "workers": 2, "store": store, "seconds": 0.3}
    usual |= {"batch_size": 8, "memory_budget": "1MiB"}
    return lambda sampler, lookahead, **options: run_probe(
        videos, sampler, lookahead=lookahead, **{**usual, **options}
    )


@pytest.mark.parametrize(
    "sampler", [UniformFrames(), ShuffledFrames(), Bursts(frames_per_burst=4, lanes=8)]
)
def test_every_strategy_can_be_probed(probe, sampler):
    result = probe(sampler, 96)
    assert result.is_filled
    assert result.frames > 0
    assert result.frames_per_second == pytest.approx(result.frames / result.seconds)
    assert 0 < result.most_held_bytes <= 2**20
    # Held frames, and two batches.
    assert result.memory_bytes == result.most_held_bytes + 2 * 8 * 32 * 32 * 3


def test_noise_is_computed_for_the_given_rho(probe):
    bursts = Bursts(frames_per_burst=4, lanes=8)
    uncorrelated, alike = (probe(bursts, 96, rho=rho) for rho in (0.0, 1.0))
    assert (uncorrelated.design_effect, uncorrelated.inflation) == (1, 1)
    assert alike.design_effect != 1 != alike.inflation


def test_looking_ahead_decodes_less(probe):
    assert probe(UniformFrames(), 384).amplification < 3 < probe(UniformFrames(), 1).amplification


def test_a_window_that_never_fills_is_reported(probe):
    assert not probe(UniformFrames(), 20_000, seconds=0.01).is_filled


MANY = Population.of([*[np.full(50, 12)] * 20, np.array([7, 11])])
"""Its number of frames is no multiple of lanes and bursts, so lanes are not in step."""
BATCH = 32


def counted(sampler, batches, population=MANY):
    meter = DesignEffectMeter(population, sampler, BATCH)
    order = sampler.order(population, 0)
    for number in range(batches):
        meter.count(order[number * BATCH : (number + 1) * BATCH])
    return meter


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
def test_counted_and_predicted_design_effects_are_equal(sampler, effect, inflation):
    """200 batches of 32 in 1,000 GOPs: chance changes each of 8 lags by about 0.005."""
    meter = counted(sampler, 200)
    assert meter.design_effect(1.0) == pytest.approx(effect, abs=0.1)
    assert meter.inflation(1.0) == pytest.approx(inflation, abs=0.4)
    assert meter.inflation(0.5) == pytest.approx(1 + (meter.inflation(1.0) - 1) / 2)


def test_too_few_batches_have_no_inflation():
    bursts = Bursts(frames_per_burst=6, lanes=32)
    assert counted(bursts, 10).inflation(0.5) is None
    assert counted(bursts, 11).inflation(0.5) > 1
    assert counted(bursts, 1).design_effect(0.5) is not None
    assert counted(bursts, 0).design_effect(0.5) is None


def test_a_smaller_last_batch_is_ignored():
    meter, other = (counted(UniformFrames(), 1) for _ in range(2))
    meter.count(np.arange(BATCH - 1))
    assert meter.inflation(0.5) is None
    assert meter.design_effect(0.5) == other.design_effect(0.5)


def test_a_single_gop_has_no_design_effect():
    meter = counted(UniformFrames(), 3, Population.of([np.array([200])]))
    assert (meter.design_effect(0.5), meter.inflation(0.5)) == (None, None)
