"""Bursts: each frame once, mates apart; pairs of one GOP meet in a batch as chance has it."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from headrace import Bursts, ConfigError, Order, Permutation, Population, RandomClips, Uniform
from headrace.sampling.shards import Shard
from sampling.kit import burst_of, cut, faults, populations, share


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


BATCH = 32
PAIRS = BATCH * (BATCH - 1) / 2
SIZE = 6
"""Frames in a burst; they fill the GOPs, so that pairs of bursts can be counted exactly."""
GOPS = np.random.default_rng(8).integers(1, 7, 120) * SIZE
POPULATION = Population.of(
    np.split(GOPS, 6), [np.linspace(1, 2, g.sum()) for g in np.split(GOPS, 6)]
)
FRAMES = POPULATION.num_frames
EPOCHS = 800


def pairs(batches) -> np.ndarray:
    """Pairs of frames of one GOP in each batch, float64 [batches]."""
    gops = POPULATION.gop_of(np.stack(batches))
    return ((gops[:, :, None] == gops[:, None, :]).sum((1, 2)) - BATCH) / 2


def first_batches(sampler) -> list[np.ndarray]:
    return [sampler.order(POPULATION, epoch)[:BATCH] for epoch in range(EPOCHS)]


def agree(counts, mean: float) -> bool:
    """Whether the mean of counts is what it should be."""
    return abs(counts.mean() - mean) <= 6.2 * counts.std(ddof=1) / np.sqrt(len(counts))


def gop_shares(over) -> np.ndarray:
    return np.add.reduceat(share(POPULATION, over), POPULATION.gop_start[:-1])


def with_replacement(over) -> float:
    return PAIRS * (gop_shares(over) ** 2).sum()


def without_replacement(over) -> float:
    """Pairs of frames that come as often as their share, rounded up or down."""
    least, rest = np.divmod(gop_shares(over) * FRAMES, 1)
    return PAIRS * (least * (least - 1) + 2 * rest * least).sum() / (FRAMES * (FRAMES - 1))


def of_different_bursts() -> float:
    return PAIRS * (GOPS * (GOPS - SIZE)).sum() / (FRAMES * (FRAMES - SIZE))


WEIGHTS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)


@pytest.mark.parametrize("over", ["frames", "seconds", "videos", WEIGHTS])
def test_independent_frames_meet_as_often_as_chance_has_it(over):
    counts = pairs(first_batches(Uniform(over=over, seed=6)))
    assert agree(counts, with_replacement(over))


@pytest.mark.parametrize("over", ["frames", "seconds", "videos", WEIGHTS])
def test_frames_of_a_permutation_meet_as_without_replacement(over):
    counts = pairs(first_batches(Permutation(over=over)))
    assert agree(counts, without_replacement(over))


def test_frames_of_bursts_meet_only_as_bursts_of_one_gop_do():
    counts = pairs(first_batches(Bursts(frames_per_burst=SIZE, lanes=BATCH)))
    assert agree(counts, of_different_bursts())


def test_clips_meet_as_their_starts_do_without_replacement():
    sampler = RandomClips(num_frames=4, boundary="wrap", each_once="starts")
    counts = pairs([batch[:, 0] for batch in first_batches(sampler)])
    assert agree(counts, without_replacement("frames"))


def test_independent_frames_meet_with_the_exact_variance():
    order = np.concatenate([Uniform(seed=6).order(POPULATION, epoch)[:] for epoch in range(60)])
    counts = pairs(order[: len(order) // BATCH * BATCH].reshape(-1, BATCH))
    two, three = (((GOPS / FRAMES) ** power).sum() for power in (2, 3))
    variance = PAIRS * (two - two**2) + 2 * PAIRS * (BATCH - 2) * (three - two**2)
    assert agree((counts - counts.mean()) ** 2, variance)


def in_order(rng) -> np.ndarray:
    """Reading in order from a random start."""
    return (rng.integers(FRAMES) + np.arange(BATCH)) % FRAMES


def short_buffer(rng) -> np.ndarray:
    """Reading in order from a random start, through a shuffle buffer of 128 frames."""
    read = iter((rng.integers(FRAMES) + np.arange(FRAMES)) % FRAMES)
    buffer = [next(read) for _ in range(128)]
    delivered = []
    for slot in rng.integers(128, size=BATCH):
        delivered.append(buffer[slot])
        buffer[slot] = next(read)
    return np.array(delivered)


def whole_bursts(rng) -> np.ndarray:
    """Bursts that are shuffled, and not dealt."""
    return burst_order(rng, lanes=1)[:BATCH]


def few_lanes(rng) -> np.ndarray:
    """Bursts that are dealt to fewer lanes than a batch has frames."""
    return burst_order(rng, lanes=BATCH // 2)[:BATCH]


def unshuffled_bursts(rng) -> np.ndarray:
    """Bursts that are rotated and dealt, and not shuffled: lanes are always equally far apart."""
    return (rng.integers(FRAMES) + np.arange(BATCH) * (FRAMES // BATCH)) % FRAMES


def burst_order(rng, lanes: int) -> Order:
    return Bursts(frames_per_burst=SIZE, lanes=lanes).order(POPULATION, int(rng.integers(2**32)))


@pytest.mark.parametrize(
    "mutant", [in_order, short_buffer, whole_bursts, few_lanes, unshuffled_bursts]
)
def test_what_is_uniform_in_every_slot_may_still_meet_too_often_or_too_rarely(mutant):
    rng = np.random.default_rng(9)
    batches = np.array([mutant(rng) for _ in range(EPOCHS)])
    for slot in (0, BATCH - 1):
        assert faults(batches[:, slot], POPULATION, share(POPULATION, "frames")) == []
    for expected in (with_replacement("frames"), of_different_bursts()):
        assert not agree(pairs(batches), expected)
