"""A trial delivers real batches and counts what they cost."""

import pytest

from headrace import Bursts, ShuffledFrames, UniformFrames
from headrace.planner.plan_probe import run_trial


@pytest.fixture
def trial(opened, copies, store):
    """Return a function: sampler, look-ahead -> Trial on 96 small frames."""
    videos = opened(*copies())

    usual = {"size": (32, 32), "workers": 2, "store": store, "seconds": 0.3}
    usual |= {"batch_size": 8, "memory_budget": "1MiB"}
    return lambda sampler, lookahead, **options: run_trial(
        videos, sampler, lookahead=lookahead, **{**usual, **options}
    )


@pytest.mark.parametrize(
    "sampler", [UniformFrames(), ShuffledFrames(), Bursts(frames_per_burst=4, lanes=8)]
)
def test_every_strategy_can_be_tried(trial, sampler):
    found = trial(sampler, 96)
    assert found.is_filled
    assert found.frames > 0
    assert found.frames_per_second == pytest.approx(found.frames / found.seconds)
    assert 0 < found.most_held_bytes <= 2**20
    # What was held, and two batches.
    assert found.memory_bytes == found.most_held_bytes + 2 * 8 * 32 * 32 * 3


def test_what_batches_were_worth_is_told_for_the_rho_that_is_taken(trial):
    bursts = Bursts(frames_per_burst=4, lanes=8)
    uncorrelated, alike = (trial(bursts, 96, rho=rho) for rho in (0.0, 1.0))
    assert (uncorrelated.design_effect, uncorrelated.inflation) == (1, 1)
    assert alike.design_effect != 1 != alike.inflation


def test_looking_ahead_decodes_less(trial):
    assert trial(UniformFrames(), 384).amplification < 3 < trial(UniformFrames(), 1).amplification


def test_a_window_that_is_never_filled_is_told(trial):
    assert not trial(UniformFrames(), 20_000, seconds=0.01).is_filled
