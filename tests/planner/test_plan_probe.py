"""A probe delivers real batches and counts their cost."""

import pytest

from headrace import Bursts, ShuffledFrames, UniformFrames
from headrace.planner.plan_probe import run_probe


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
