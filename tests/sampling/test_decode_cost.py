"""Costs by formula are those of decoding step by step; what pays follows from them."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import Bursts, Population, ShuffledFrames, UniformFrames
from headrace.sampling.decode_cost import DecodeCost, burst_cost, lookahead_cost, lookahead_for
from headrace.sampling.recommendation import reencode
from sampling.kit import SPEED, compared, decoding, populations

CAMERA = Population.of([np.full(20, 30)] * 20)
MIXED = Population.of([np.random.default_rng(2).integers(1, 60, 40) for _ in range(10)])


def slide(population: Population, requests, lookahead: int) -> np.ndarray:
    """[decoded, seeks, held] of each request under a sliding look-ahead, float64 [n, 3].

    What is held is counted as the slots that a frame waits from its decoding to its last use.
    """
    slots = defaultdict(list)
    gops = population.gop_of(requests)
    for slot, gop in enumerate(gops.tolist()):
        slots[gop].append(slot)
    cost = np.zeros((len(requests), 3))
    for gop, due in slots.items():
        at = np.array(due)
        while len(at):
            served = at[at < at[0] + lookahead]
            frames = requests[served]
            last_use = dict(zip(frames.tolist(), (served - at[0]).tolist(), strict=True))
            decoded = frames.max() - population.gop_start[gop] + 1
            cost[at[0]] += decoded, 1, sum(last_use.values())
            at = at[len(served) :]
    return cost


def z_scores(cost, blocks, skip: int = 0) -> np.ndarray:
    """How many standard errors a simulated cost is off, from means of 20 long pieces."""
    pieces = np.array([piece.mean(0) for piece in np.array_split(blocks[skip:], 20)])
    expected = np.array([cost.amplification, cost.seeks, cost.held_frames])
    return (pieces.mean(0) - expected) / (pieces.std(0, ddof=1) / np.sqrt(20))


@pytest.mark.parametrize("lookahead", [2, 400, 4000])
@pytest.mark.parametrize("population", [CAMERA, MIXED])
def test_a_sliding_look_ahead_costs_what_the_formula_says(population, lookahead):
    requests = np.concatenate([UniformFrames(seed=4).order(population, e)[:] for e in range(6)])
    found = slide(population, requests, lookahead)
    # The last requests are left out, because their GOPs would be asked for again.
    cost = lookahead_cost(population.gop_lengths, lookahead)
    assert np.abs(z_scores(cost, found[:-lookahead], skip=4 * lookahead)).max() < 5


def test_a_permutation_under_a_look_ahead_costs_about_as_much_and_holds_more():
    orders = [ShuffledFrames(seed=4).order(CAMERA, epoch)[:] for epoch in range(10)]
    epoch, lookahead = CAMERA.num_frames, CAMERA.num_frames * 3 // 10
    decoded, seeks, held = slide(CAMERA, np.concatenate(orders), lookahead)[epoch:-epoch].mean(0)
    cost = lookahead_cost(CAMERA.gop_lengths, lookahead)
    assert (decoded, seeks) == pytest.approx((cost.amplification, cost.seeks), rel=0.05)
    assert held == pytest.approx(1.09 * cost.held_frames, rel=0.02)


@given(population=populations(), size=st.integers(1, 15))
def test_bursts_cost_what_their_decoding_takes(population, size):
    cost = burst_cost(population.gop_lengths, size, lanes=4)
    decoded, seeks = decoding(population, size)
    assert cost.amplification * population.num_frames == pytest.approx(decoded)
    assert cost.seeks * population.num_frames == pytest.approx(seeks)
    assert cost.held_frames == 4 * (size - 1) / 2


def test_bursts_cost_no_more_under_a_look_ahead_that_sees_them_whole():
    sampler = Bursts(frames_per_burst=8, lanes=32)
    frames = sampler.order(CAMERA, 0)[:]
    found = slide(CAMERA, frames, (8 - 1) * 32 + 1).mean(0)
    cost = burst_cost(CAMERA.gop_lengths, 8, lanes=32)
    # Ends of lanes cut 33 bursts; bursts of one GOP meet.
    assert 0.85 * cost.amplification < found[0] < cost.amplification * (1 + 33 * 30 / len(frames))
    assert found[2] == pytest.approx(cost.held_frames, rel=0.2)


def test_no_look_ahead_is_naive_random_access():
    lengths = MIXED.gop_lengths
    cost = lookahead_cost(lengths, 1)
    assert cost.amplification == pytest.approx(((lengths**2).sum() / lengths.sum() + 1) / 2)
    assert (cost.seeks, cost.held_frames) == (pytest.approx(1), 0)


@given(population=populations(), frames=st.integers(1, 500))
def test_the_longest_look_ahead_holds_as_many_frames_as_it_may(population, frames):
    lengths = population.gop_lengths
    longest = lookahead_for(lengths, frames)
    assert lookahead_cost(lengths, longest).held_frames <= frames
    if longest < 131_072:
        assert lookahead_cost(lengths, longest + 1).held_frames > frames
    else:
        assert frames >= 0.9 * population.num_frames


def test_a_look_ahead_is_not_longer_than_a_planner_can_see_and_holds_a_frame_once():
    assert lookahead_for(np.full(100_000, 250), 10**9) == 131_072
    cost = lookahead_cost(np.array([1]), 5)
    assert (cost.seeks, cost.held_frames) == (pytest.approx(1 / 5), pytest.approx(4 / 5))


@pytest.mark.parametrize(
    ("lookahead", "amplification"), [(400, 9.739), (1200, 5.917), (4000, 2.5251)]
)
def test_400_gops_of_30_cost_what_a_simulation_of_the_process_found(lookahead, amplification):
    cost = lookahead_cost(CAMERA.gop_lengths, lookahead)
    assert cost.amplification == pytest.approx(amplification, abs=0.0005)


def cost(amplification, seeks=1.0):
    return DecodeCost(amplification=amplification, seeks=seeks, held_frames=0)


def test_throughput_counts_seeks_and_decoded_and_delivered_frames():
    """A frame that is used twice is converted once."""
    assert SPEED.throughput(cost(10, 0.5)) == pytest.approx(2 / (0.002 + 0.020 + 0.001))
    assert SPEED.throughput(cost(0.5, 0)) == pytest.approx(2 / (0.001 + 0.0005))


def test_batches_are_written_by_one_thread():
    """So more workers do not raise its share of the rate."""
    speed = replace(SPEED, seconds_per_collated=0.001)
    assert speed.throughput(cost(0.5, 0)) == pytest.approx(2 / (0.001 + 0.0005 + 0.001))
    assert replace(speed, workers=64).throughput(cost(0.5, 0)) == pytest.approx(1000)


@pytest.mark.parametrize(("share", "decoded"), [(0.0, 11), (0.5, 6), (0.9, 2)])
def test_droppable_frames_that_are_passed_are_not_decoded(share, decoded):
    speed = replace(SPEED, droppable_share=share)
    assert speed.decoded(cost(11)) == pytest.approx(decoded)
    assert speed.decoded(cost(1)) == 1
    assert speed.decoded(cost(0.5)) == 0.5


HD = 1280 * 720


def advice(gops, *, pixels=HD, target=None, later=2000, before=None):
    lengths = np.array(gops)
    now = compared(lengths, later=later)["look-ahead"]
    before = before or now.frames_per_second
    return reencode(lengths, now, before=before, pixels=pixels, target=target)


def test_long_gops_that_do_not_fit_are_worth_copying():
    found = advice(np.full(4000, 250))
    assert found.pays
    assert found.after >= 1.5 * found.before
    assert found.amplification_after < found.amplification_before
    # Bytes of a frame are 3000, so it has 1000 pixels.
    assert found.disk_bytes == 4000 * 250 * 1000 * 0.028
    assert found.epochs == pytest.approx(found.seconds / (1e6 / found.before - 1e6 / found.after))


def test_frames_of_copies_that_fit_the_memory_are_reused_as_those_of_the_originals():
    found = advice(np.full(10, 30), later=300)
    assert found.amplification_after == pytest.approx(found.amplification_before, rel=0.05)
    assert found.after > found.before


def test_making_them_takes_every_frame_once():
    """2 ms to decode, 1 ms to convert, and 4 times the decoding of a small frame, on 2 cores."""
    small = 0.002 * 2 * 1000 / HD
    assert advice(np.full(100, 250)).seconds == pytest.approx(100 * 250 * (0.003 + 4 * small) / 2)


@pytest.mark.parametrize(
    ("gops", "options", "why"),
    [
        (np.full(4000, 12), {}, "GOPs are short already: 12 frames"),
        (np.full(4000, 250), {"target": 5}, "5 frames/s are reached as it is"),
        (np.full(10, 30), {"later": 300, "pixels": 1000}, "times as fast, too little"),
        (np.full(10, 30), {"before": 1e4}, "slower (0.8 times as fast): what is decoded now"),
    ],
)
def test_strategies_that_do_not_pay_give_a_reason(gops, options, why):
    found = advice(gops, **options)
    assert not found.pays
    assert why in found.why_not
