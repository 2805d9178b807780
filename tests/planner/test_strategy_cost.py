"""Cost of a strategy: simulated as the formulas predict, and measured on real batches."""

import numpy as np
import pytest

from headrace import Bursts, Population, ShuffledFrames, UniformFrames
from headrace.planner.strategy_cost import DesignEffectMeter, run_probe, simulate
from headrace.sampling.decode_cost import burst_cost, lookahead_cost, lookahead_for


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


def test_the_first_epoch_is_simulated_from_the_first_batch_on():
    """12,000 frames in 400 GOPs of 30: without a lookahead, each frame costs 15.5."""
    first = simulated(ShuffledFrames(), 4000).first_epoch
    assert first.frames == 12_000
    steady = simulated(ShuffledFrames(), 4000)
    assert 1.2 * steady.amplification < first.amplification < 15.5
    assert steady.seeks < first.seeks < 1
    alone = simulated(ShuffledFrames(), 1)
    assert alone.first_epoch.amplification == pytest.approx(alone.amplification, rel=0.05)


def test_the_rest_of_a_long_first_epoch_costs_the_mean(monkeypatch):
    monkeypatch.setattr("headrace.planner.strategy_cost._LEAST_REQUESTS", 960)
    cost = simulated(UniformFrames(), 160)  # 960 of 12,000 frames are simulated
    first = cost.first_epoch
    assert first.amplification == pytest.approx(cost.amplification, rel=0.1)
    assert first.amplification != cost.amplification


def test_a_set_of_one_batch_is_simulated_epoch_after_epoch():
    one = Population.of([np.array([30, 40])])
    cost = simulate(one, ShuffledFrames(), lookahead=70, capacity=70, batch_size=70)
    assert 0 < cost.amplification <= 1
    assert 0 < cost.held_frames <= 70
