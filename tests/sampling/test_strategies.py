"""The table of strategies holds what the theory says; advice follows its rule and says why."""

from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import Bursts, ShuffledFrames, UniformFrames
from headrace.sampling.bias import DEFAULT_RHO
from headrace.sampling.decode_cost import DecodeCost, burst_cost, lookahead_cost
from headrace.sampling.recommendation import recommend
from sampling.kit import SPEED, compared

CAMERA = np.full(400, 30)
LONG = np.full(400, 250)


def test_the_plainest_comes_first_and_the_warned_about_last():
    rows = compared(CAMERA)
    assert list(rows) == [
        *("naive", "look-ahead", "look-ahead, shuffled", "bursts", "keyframes only")
    ]
    samplers = [type(row.sampler) for row in rows.values()]
    assert samplers == [UniformFrames, UniformFrames, ShuffledFrames, Bursts, type(None)]


def test_naive_access_decodes_half_of_a_gop():
    row = compared(CAMERA)["naive"]
    assert (row.amplification, row.cost.seeks) == (pytest.approx(15.5), pytest.approx(1))
    assert row.frames_per_second == pytest.approx(2 / (0.004 + 15.5 * 0.002 + 0.001))
    assert row.memory_bytes == 3 * 128 * 3000


def test_frames_without_replacement_have_less_noise_than_independent_ones():
    """64 batches, contraction 0.005: 0.099 was derived and simulated."""
    rows = compared(np.full(64, 128), batch_size=128, contraction=0.005)
    assert rows["look-ahead, shuffled"].inflation_at == pytest.approx(0.099, abs=0.001)
    assert rows["look-ahead"].inflation_at == 1


@pytest.mark.parametrize(("size", "long_run"), [(2, 1.5), (4, 2.5), (8, 4.5), (16, 8.5)])
def test_bursts_pay_with_noise_over_many_steps_and_none_within_one(size, long_run):
    row = compared(LONG, frames_per_burst=size, later=10_000)["bursts"]
    assert (row.design_effect, row.inflation) == (1, long_run)
    assert row.bias_bound == 0
    assert f"the effective size of a batch of 128 is {128 / long_run:.0f}," in row.words


def test_rows_tell_how_batches_correlate():
    """Of bursts of 4 in 128 lanes, 3, 2 and 1 of 4 frames have their mate 1, 2, 3 batches on."""
    rows = compared(LONG, frames_per_burst=4, later=10_000)
    assert rows["naive"].autocorrelation == rows["keyframes only"].autocorrelation == (0,) * 8
    assert rows["bursts"].autocorrelation[:4] == pytest.approx([0.375, 0.25, 0.125, 0], abs=0.01)
    assert "the correlation of its gradient with the next one's is 0.38" in rows["bursts"].words


def test_rows_are_predicted_from_their_own_formulas():
    """Bursts that do not meet cost what they cost alone."""
    row = compared(LONG)["look-ahead"]
    assert row.cost == lookahead_cost(LONG, row.lookahead)
    assert row.frames_per_second == SPEED.throughput(row.cost)
    row = compared(LONG, frames_per_burst=16, later=960)["bursts"]
    alone = burst_cost(LONG, 16, 128)
    assert row.is_feasible
    assert row.lookahead >= 15 * 128 + 1
    assert row.amplification == pytest.approx(alone.amplification, rel=0.1)


def test_bursts_are_the_fewest_frames_that_reach_the_target():
    without = compared(LONG, later=3000)["look-ahead"].frames_per_second
    row = compared(LONG, later=3000, target=2 * without)["bursts"]
    assert row.frames_per_second >= 2 * without
    assert row.sampler.frames_per_burst == 16
    fewer = compared(LONG, later=3000, frames_per_burst=12)["bursts"]
    assert fewer.frames_per_second < 2 * without


def test_the_bias_of_keyframes_matches_the_formula():
    """All weight on one frame of 30: F·w is 30 there and 0 elsewhere."""
    row = compared(CAMERA)["keyframes only"]
    assert row.bias_bound == pytest.approx(sqrt(30 - 1))
    assert not row.is_sound
    assert "96.7 % of frames are never sampled, which no weights can correct" in row.words
    # Where all frames are keyframes, nothing is warned of.
    assert "keyframes only" not in compared(np.ones(1000, int))


def test_costs_are_asked_for_wherever_there_is_a_look_ahead():
    asked = []

    def cost_of(sampler, lookahead):
        asked.append((type(sampler).__name__, lookahead))
        return DecodeCost(amplification=7, seeks=0.25, held_frames=10)

    rows = compared(CAMERA, frames_per_burst=4, cost_of=cost_of)
    assert [name for name, _ in asked] == ["UniformFrames", "ShuffledFrames", "Bursts"]
    assert [lookahead for _, lookahead in asked] == [
        rows[name].lookahead for name in ("look-ahead", "look-ahead, shuffled", "bursts")
    ]
    assert {row.amplification for row in rows.values()} == {15.5, 7, 1}
    assert rows["bursts"].memory_bytes == (10 + 3 * 128) * 3000


def test_bursts_that_are_not_possible_say_why():
    few = compared(np.full(10, 30))["bursts"]
    assert few.why_not == ("a batch of 128 in bursts of 2 needs 384 frames, the videos have 300")
    tight = compared(LONG, later=400, frames_per_burst=8)["bursts"]
    assert not tight.is_feasible
    assert "more memory are needed for frames that wait" in tight.why_not


gops = st.lists(st.integers(1, 300), min_size=1, max_size=60)


@given(gops=gops, later=st.integers(0, 3000), more=st.integers(1, 3000))
def test_more_memory_never_predicts_slower(gops, later, more):
    less = compared(gops, batch_size=1, later=later)
    rich = compared(gops, batch_size=1, later=later + more)
    for name in ("naive", "look-ahead", "look-ahead, shuffled"):
        assert rich[name].frames_per_second >= less[name].frames_per_second * (1 - 1e-9), name


@given(gops=gops, batch=st.integers(1, 64), later=st.integers(0, 5000))
def test_every_row_keeps_within_its_memory_and_is_a_finite_speed(gops, batch, later):
    if batch > sum(gops):
        return
    for row in compared(gops, batch_size=batch, later=later).values():
        assert row.memory_bytes <= (later + 3 * batch) * 3000
        assert 0 < row.frames_per_second < np.inf
        assert row.lookahead >= 1
        assert np.isfinite(row.inflation_at)


MANY = np.full(10_000, 250)


def advice(gops, target=None, **options):
    return recommend(list(compared(gops, target=target, **options).values()), target)


def test_a_shuffle_that_is_as_fast_is_taken_and_bursts_are_compared():
    best = advice(CAMERA, later=1000)
    assert best.strategy.name == "look-ahead, shuffled"
    assert best.why == (
        "no uncorrelated strategy is clearly faster, and a shuffle has less noise than independent "
        "draws; bursts of 2 would be 1.2 times as fast but, over many steps, 1.5 times as noisy; "
        "they would be better if rho is below 0.18"
    )


def test_a_shuffle_that_is_slower_is_not_taken():
    best = advice(CAMERA, later=8000)
    assert best.strategy.name == "look-ahead"
    assert best.why == (
        "no uncorrelated strategy is clearly faster; bursts of 2 would not be faster"
    )


def test_where_gops_are_too_many_to_meet_bursts_are_worth_their_noise():
    best = advice(MANY, later=2000)
    assert best.strategy.name.startswith("bursts of ")
    assert "the speed outweighs the noise if rho is below 0." in best.why
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
    cautious = advice(MANY, rho=DEFAULT_RHO, **asked)
    assert cautious.strategy.inflation == 1
    turns = float(cautious.why.rpartition("they would be better if rho is below ")[2])
    assert 0 < turns < DEFAULT_RHO
    rows = compared(MANY, rho=turns, **asked)
    gain = rows["bursts"].frames_per_second / cautious.strategy.frames_per_second
    assert rows["bursts"].inflation == pytest.approx(gain, abs=0.005 * size)
    assert advice(MANY, rho=0.8 * turns, **asked).strategy.name == f"bursts of {size}"


EXACT = compared(LONG, later=3000)["look-ahead"].frames_per_second


@pytest.mark.parametrize(
    ("target", "is_reached", "inflates", "why"),
    [
        (0.5 * EXACT, True, False, "without any correlation"),
        (2 * EXACT, True, True, f"look-ahead, without correlation, reaches {EXACT:,.0f}"),
        (1e6, False, True, "nothing here reaches 1,000,000 frames/s"),
    ],
    ids=["exact sampling reaches it", "the least correlation does", "out of reach"],
)
def test_a_target_is_reached_by_the_least_correlation(target, is_reached, inflates, why):
    best = advice(LONG, later=3000, target=target)
    assert best.reaches_target == (best.strategy.frames_per_second >= target) == is_reached
    assert (best.strategy.inflation > 1) == inflates
    assert why in best.why


@given(
    gops=st.lists(st.integers(1, 300), min_size=1, max_size=40),
    batch=st.integers(1, 40),
    later=st.integers(0, 3000),
    rho=st.floats(0, 1),
    target=st.none() | st.floats(1, 5000),
)
def test_recommended_strategies_can_run_and_are_unbiased(gops, batch, later, rho, target):
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
    noise = [row.inflation / row.frames_per_second for row in (recommend(rows).strategy, *rows)]
    sound = [each for row, each in zip(rows, noise[1:], strict=True) if row.is_sound]
    assert noise[0] <= 1.05 * min(sound)
