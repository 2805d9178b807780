"""The recommendation is sound, follows its rule, and says why."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.sampling.bursts import Bursts
from headrace.sampling.recommendation import recommend
from headrace.sampling.rho import TAKEN_RHO
from sampling.compared import compared

CAMERA = np.full(400, 30)
LONG = np.full(400, 250)
MANY = np.full(10_000, 250)


def advice(gops, target=None, **options):
    return recommend(list(compared(gops, target=target, **options).values()), target)


def test_a_shuffle_that_is_as_fast_is_taken_and_bursts_are_compared():
    best = advice(CAMERA, later=1000)
    assert best.strategy.name == "look-ahead, shuffled"
    assert best.why == (
        "nothing without correlation is clearly faster, and a shuffle makes gradients calmer than "
        "draws do; bursts of 2 would be 1.2 times as fast but, over many steps, 1.5 times as noisy"
        "; they would pay where rho is below 0.18"
    )


def test_a_shuffle_that_is_slower_is_not_taken():
    best = advice(CAMERA, later=8000)
    assert best.strategy.name == "look-ahead"
    assert best.why == (
        "nothing without correlation is clearly faster; bursts of 2 would be no faster"
    )


def test_where_gops_are_too_many_to_meet_bursts_are_worth_their_noise():
    best = advice(MANY, later=2000)
    assert best.strategy.name.startswith("bursts of ")
    assert "the speed outweighs the noise, as long as rho is below 0." in best.why
    exact = compared(MANY, later=2000)["look-ahead"]
    gain = best.strategy.frames_per_second / exact.frames_per_second
    assert gain > best.strategy.inflation > 1


def test_the_more_bursts_correlate_the_smaller_they_are():
    chosen = [advice(MANY, later=2000, rho=rho).strategy.sampler for rho in (0.02, 0.2, 1.0)]
    assert chosen[0].frames_per_burst > chosen[1].frames_per_burst > 1
    assert not isinstance(chosen[2], Bursts)


@pytest.mark.parametrize("size", [2, 6])
def test_the_rho_that_is_named_is_the_one_at_which_advice_turns(size):
    """Cautious advice must not end the matter: who measures ρ knows which way it goes then."""
    asked = {"later": 2000, "frames_per_burst": size}
    cautious = advice(MANY, rho=TAKEN_RHO, **asked)
    assert cautious.strategy.inflation == 1
    turns = float(cautious.why.rpartition("they would pay where rho is below ")[2])
    assert 0 < turns < TAKEN_RHO
    rows = compared(MANY, rho=turns, **asked)
    gain = rows["bursts"].frames_per_second / cautious.strategy.frames_per_second
    assert rows["bursts"].inflation == pytest.approx(gain, abs=0.005 * size)
    assert advice(MANY, rho=0.8 * turns, **asked).strategy.name == f"bursts of {size}"


def test_a_target_that_exact_sampling_reaches_needs_no_bursts():
    exact = compared(LONG)["look-ahead"]
    best = advice(LONG, target=exact.frames_per_second * 0.5)
    assert best.reaches_target
    assert best.strategy.inflation == 1
    assert "without any correlation" in best.why


def test_a_target_beyond_it_takes_the_least_correlation():
    exact = compared(LONG, later=3000)["look-ahead"].frames_per_second
    best = advice(LONG, later=3000, target=2 * exact)
    assert best.reaches_target
    assert best.strategy.frames_per_second >= 2 * exact
    assert f"look-ahead, which has none, ends at {exact:,.0f}" in best.why


def test_a_target_out_of_reach_is_said_to_be():
    best = advice(LONG, target=1e6)
    assert not best.reaches_target
    assert "nothing here reaches 1,000,000 frames/s" in best.why


@given(
    gops=st.lists(st.integers(1, 300), min_size=1, max_size=40),
    batch=st.integers(1, 40),
    later=st.integers(0, 3000),
    rho=st.floats(0, 1),
    target=st.none() | st.floats(1, 5000),
)
def test_what_is_recommended_can_be_run_and_is_unbiased(gops, batch, later, rho, target):
    if batch > sum(gops):
        return
    best = advice(gops, target=target, batch_size=batch, later=later, rho=rho)
    assert best.strategy.is_feasible
    assert best.strategy.bias_bound == 0
    assert best.strategy.sampler is not None
    if target is not None and best.reaches_target:
        assert best.strategy.frames_per_second >= target
    assert best.why


@pytest.mark.parametrize("rho", [0.1, 0.5])
def test_nothing_sound_has_clearly_less_noise_per_second(rho):
    rows = list(compared(MANY, later=3000, rho=rho).values())
    best = recommend(rows).strategy
    noise = best.inflation / best.frames_per_second
    for row in rows:
        if row.is_sound:
            assert noise <= 1.05 * row.inflation / row.frames_per_second
