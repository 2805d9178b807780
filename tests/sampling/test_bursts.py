"""Bursts: each frame once, mates apart. Uniformity: test_uniformity.py."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.sampling.bursts import Bursts
from headrace.sampling.population import Population
from headrace.sampling.shards import Shard
from sampling.bursts_by_hand import burst_of, cut
from sampling.populations import populations


@st.composite
def cases(draw) -> tuple[Population, Bursts]:
    """A population and bursts that are possible for it."""
    population = draw(populations())
    assume(population.num_frames >= 2)
    size = draw(st.integers(1, min(20, population.num_frames - 1)))
    lanes = draw(st.integers(1, population.num_frames // (size + 1)))
    return population, Bursts(frames_per_burst=size, lanes=lanes, seed=draw(st.integers(0, 9)))


@given(case=cases(), epoch=st.integers(0, 99))
def test_an_epoch_delivers_each_frame_exactly_once(case, epoch):
    population, sampler = case
    delivered = sampler.order(population, epoch)[:]
    assert np.sort(delivered).tolist() == list(range(population.num_frames))


@given(case=cases())
def test_mates_are_never_in_one_batch_of_at_most_as_many_frames_as_lanes(case):
    population, sampler = case
    burst = burst_of(population, sampler.frames_per_burst)[sampler.order(population, 0)[:]]
    for start in range(len(burst) - sampler.lanes + 1):
        batch = burst[start : start + sampler.lanes]
        assert len(np.unique(batch)) == len(batch)


@given(case=cases())
def test_lanes_end_to_end_are_all_bursts_whole_and_in_order_on_a_circle(case):
    population, sampler = case
    order = sampler.order(population, 0)
    circle = np.concatenate([order[lane :: sampler.lanes] for lane in range(sampler.lanes)])
    bursts = {burst[0]: burst for burst in cut(population, sampler.frames_per_burst)}
    first = next(at for at, frame in enumerate(circle) if frame in bursts)
    rest = np.roll(circle, -first).tolist()
    while rest:
        burst = bursts.pop(rest[0])
        assert rest[: len(burst)] == burst
        rest = rest[len(burst) :]
    assert not bursts


def test_bursts_lie_inside_gops_and_left_overs_next_to_keyframes():
    population = Population.of([np.array([7, 2]), np.array([5])])
    assert cut(population, 3) == [[1, 2, 3], [4, 5, 6], [11, 12, 13], [0, 7, 8], [9, 10]]
    delivered = Bursts(frames_per_burst=3, lanes=1).order(population, 0)[:].tolist()
    text = " ".join(map(str, delivered + delivered))
    assert all(" ".join(map(str, burst)) in text for burst in cut(population, 3))


def test_bursts_of_one_frame_are_a_permutation():
    population = Population.of([np.array([500] * 4)])
    delivered = Bursts(frames_per_burst=1, lanes=8).order(population, 0)[:]
    assert abs(np.corrcoef(delivered, np.arange(2000))[0, 1]) < 6 / np.sqrt(2000)


@given(case=cases(), ranks=st.integers(1, 4), batch_size=st.integers(1, 8))
def test_no_step_that_is_allowed_holds_mates_on_any_rank(case, ranks, batch_size):
    population, sampler = case
    try:
        sampler.check_step(batch_size, ranks)
    except ConfigError:
        assert batch_size * ranks > sampler.lanes
        return
    order = sampler.order(population, 0)
    shards = [Shard(rank=rank, ranks=ranks, remainder="drop") for rank in range(ranks)]
    number = burst_of(population, sampler.frames_per_burst)
    count = shards[0].count(len(order))
    for start in range(0, count, batch_size):
        stop = min(start + batch_size, count)
        step = np.concatenate([order.at(each.slots(start, stop, len(order))) for each in shards])
        assert len(np.unique(number[step])) == len(step)


def test_a_step_that_could_hold_mates_is_refused():
    bursts = Bursts(frames_per_burst=8, lanes=128)
    bursts.check_step(64, 2)
    with pytest.raises(ConfigError) as caught:
        bursts.check_step(128, 2)
    assert str(caught.value) == (
        "a step of 128 frames on each of 2 ranks can hold two frames of one burst if they are "
        "dealt to 128 lanes; ask for 256 lanes or more, or a batch_size of at most 64"
    )


def test_too_many_lanes_for_so_few_frames_are_refused():
    population = Population.of([np.array([30] * 10)])
    Bursts(frames_per_burst=8, lanes=33).order(population, 0)
    with pytest.raises(ConfigError) as caught:
        Bursts(frames_per_burst=8, lanes=34).order(population, 0)
    assert str(caught.value) == (
        "34 lanes of bursts of 8 need at least 306 frames, the videos have 300; "
        "at most 33 lanes are possible"
    )


@pytest.mark.parametrize("name", ["frames_per_burst", "lanes"])
def test_nothing_of_a_kind_is_refused(name):
    with pytest.raises(ConfigError, match=f"{name} must be an integer >= 1, got 0"):
        Bursts(**{"frames_per_burst": 8, "lanes": 8, name: 0})
