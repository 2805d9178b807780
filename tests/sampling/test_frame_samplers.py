"""Single frames and bursts: each by its share, mates apart, and pairs of a GOP as chance has it."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headrace import Bursts, ConfigError, Population, RandomClips, UniformClips
from headrace.sampling.frame_samplers import SequentialFrames, ShuffledFrames, UniformFrames
from headrace.sampling.sampler import Shard
from headrace.sampling.sampling_weights import inverse_cdf
from sampling.kit import burst_of, cut, faults, populations, share, uneven


@given(population=populations(), stride=st.integers(1, 20))
def test_in_order_takes_every_nth_frame_of_each_video(population, stride):
    video, index = population.locate(SequentialFrames(stride=stride).order(population, 0)[:])
    for number, length in enumerate(population.frames_per_video):
        assert index[video == number].tolist() == list(range(0, length, stride))
    assert (np.diff(video) >= 0).all()


@given(population=populations(), seed=st.integers(0, 99), data=st.data())
def test_a_permutation_gives_frames_and_videos_their_shares_rounded(population, seed, data):
    weights = st.tuples(*[st.floats(0.1, 9)] * population.num_videos)
    over = data.draw(st.sampled_from(["seconds", "videos"]) | weights)
    delivered = ShuffledFrames(over=over, seed=seed).order(population, 0)[:]
    due = share(population, over) * population.num_frames
    counts = np.bincount(delivered, minlength=population.num_frames)
    starts = population.video_start[:-1]
    assert np.abs(counts - due).max() < 1 + 1e-9
    assert np.abs(np.add.reduceat(counts - due, starts)).max() < 1 + 1e-9


def test_a_frame_with_a_fractional_share_comes_in_that_fraction_of_epochs():
    population = uneven()
    orders = [ShuffledFrames(over="videos").order(population, epoch)[:] for epoch in range(300)]
    counts = np.bincount(np.concatenate(orders), minlength=population.num_frames) / 300
    due = share(population, "videos") * population.num_frames
    assert np.abs(counts - due).max() < 6 * 0.5 / np.sqrt(300)


@pytest.mark.parametrize("sampler", [UniformFrames, ShuffledFrames])
def test_a_small_weight_makes_a_video_rare_and_none_makes_it_absent(sampler):
    population = uneven()
    orders = [sampler(over=(0.0,) * 10 + (1.0, 99.0)).order(population, e)[:] for e in range(20)]
    video = population.video_of(np.concatenate(orders))
    assert np.unique(video).tolist() == [10, 11]
    assert abs((video == 10).mean() - 0.01) < 6 * np.sqrt(0.0099 / len(video))


def test_weights_by_length_are_a_plain_permutation_again():
    population = uneven()
    over = tuple(population.frames_per_video.astype(float))
    order = ShuffledFrames(over=over, seed=4).order(population, 2)
    assert order[:].tolist() == ShuffledFrames(seed=4).order(population, 2)[:].tolist()


TWO = Population.of([np.array([2]), np.array([4])], [np.array([1.0, 0]), np.ones(4)])


@given(population=populations(), data=st.data())
def test_every_frame_has_its_share_of_the_line_in_the_order_of_ids(population, data):
    weights = st.tuples(*[st.integers(1, 9)] * population.num_videos)
    over = data.draw(st.sampled_from(["frames", "seconds", "videos"]) | weights)
    ends = np.cumsum(share(population, over))
    frame_at = inverse_cdf(population, over)
    for place in (0.001, 0.5, 0.999):
        inside = ends - (1 - place) * share(population, over)
        assert frame_at(inside).tolist() == list(range(population.num_frames))


@pytest.mark.parametrize(("over", "last"), [("seconds", 5), ("videos", 5), ((1.0, 0.0), 1)])
def test_the_end_of_the_line_is_the_last_frame_that_has_a_share(over, last):
    assert inverse_cdf(TWO, over)(np.array([1 - 2.0**-53, 1.0])).tolist() == [last, last]


def test_frames_with_share_zero_are_never_drawn():
    places = np.linspace(0, 1, 1001)
    assert 1 not in inverse_cdf(TWO, "seconds")(places)
    assert set(inverse_cdf(TWO, (0.0, 1.0))(places)) == {2, 3, 4, 5}


RANDOM = [
    UniformFrames(seed=1),
    UniformFrames(over="videos", seed=1),
    UniformFrames(over="seconds", seed=1),
    ShuffledFrames(seed=1),
    ShuffledFrames(over="seconds", seed=1),
    Bursts(frames_per_burst=1, lanes=1, seed=1),
    RandomClips(num_frames=3, stride=2, temporal_jitter=1, boundary="wrap", seed=1),
    RandomClips(num_frames=3, each_once="starts", boundary="repeat_last", seed=1),
]


ALL = [
    *RANDOM,
    SequentialFrames(stride=2),
    UniformClips(num_clips=2, num_frames=3, boundary="repeat_last"),
]


@pytest.mark.parametrize("sampler", ALL)
@settings(max_examples=40)
@given(population=populations(), data=st.data())
def test_a_slot_holds_the_same_however_it_is_asked_for_and_stays_as_it_is(
    sampler, population, data
):
    if isinstance(sampler, Bursts) and population.num_frames < 2:
        return
    order = sampler.order(population, 5)
    whole = order[:]
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, len(order))] * 2)))
    drawn = data.draw(st.lists(st.integers(0, len(order) - 1)))
    slots = np.array(drawn, np.int64)
    assert len(whole) == len(order)
    assert order[start:stop].tolist() == whole[start:stop].tolist()
    assert sampler.order(population, 5).at(slots).tolist() == whole[drawn].tolist()
    assert slots.tolist() == drawn
    assert order[1::3].tolist() == whole[1::3].tolist()


@pytest.mark.parametrize("sampler", RANDOM)
def test_epochs_and_seeds_have_orders_of_their_own(sampler):
    population, other_seed = uneven(), replace(sampler, seed=2)
    first = sampler.order(population, 0)[:]
    for other in (sampler.order(population, 1), other_seed.order(population, 0)):
        assert (other[:] == first).mean() < 0.5


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
    population, bursts = case
    for sampler in (bursts, ShuffledFrames(seed=bursts.seed)):
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


OVER = ["frames", "seconds", "videos", (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)]
STARTS = RandomClips(num_frames=4, boundary="wrap", each_once="starts")


@pytest.mark.parametrize(
    ("sampler", "expected"),
    [
        *((UniformFrames(over=over, seed=6), with_replacement(over)) for over in OVER),
        *((ShuffledFrames(over=over), without_replacement(over)) for over in OVER),
        (Bursts(frames_per_burst=SIZE, lanes=BATCH), of_different_bursts()),
        (STARTS, without_replacement("frames")),
    ],
)
def test_frames_of_a_gop_share_a_batch_as_often_as_the_sampler_predicts(sampler, expected):
    """Of clips their first frames, of bursts only different ones."""
    orders = [sampler.order(POPULATION, epoch) for epoch in range(EPOCHS)]
    assert agree(pairs([order[:BATCH].reshape(BATCH, -1)[:, 0] for order in orders]), expected)


def test_independent_frames_meet_with_the_exact_variance():
    sampler = UniformFrames(seed=6)
    order = np.concatenate([sampler.order(POPULATION, epoch)[:] for epoch in range(60)])
    counts = pairs(order[: len(order) // BATCH * BATCH].reshape(-1, BATCH))
    two, three = (((GOPS / FRAMES) ** power).sum() for power in (2, 3))
    variance = PAIRS * (two - two**2) + 2 * PAIRS * (BATCH - 2) * (three - two**2)
    assert agree((counts - counts.mean()) ** 2, variance)


def short_buffer(rng) -> np.ndarray:
    """Reading in order from a random start, through a shuffle buffer of 128 frames."""
    read = iter((rng.integers(FRAMES) + np.arange(FRAMES)) % FRAMES)
    buffer, delivered = [next(read) for _ in range(128)], []
    for slot in rng.integers(128, size=BATCH):
        delivered.append(buffer[slot])
        buffer[slot] = next(read)
    return np.array(delivered)


def every(step: int, rng) -> np.ndarray:
    """Frames at equal steps from a random start."""
    return (rng.integers(FRAMES) + np.arange(BATCH) * step) % FRAMES


def bursts(lanes: int, rng) -> np.ndarray:
    """The first batch of bursts that are shuffled and dealt."""
    order = Bursts(frames_per_burst=SIZE, lanes=lanes).order(POPULATION, int(rng.integers(2**32)))
    return order[:BATCH]


MUTANTS = {
    "in order from a random start": partial(every, 1),
    "through a short buffer": short_buffer,
    "bursts that are not dealt": partial(bursts, 1),
    "bursts dealt to fewer lanes than a batch has frames": partial(bursts, BATCH // 2),
    "bursts rotated and dealt, and not shuffled": partial(every, FRAMES // BATCH),
}


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_what_is_uniform_in_every_slot_may_still_meet_too_often_or_too_rarely(mutant):
    rng = np.random.default_rng(9)
    batches = np.array([mutant(rng) for _ in range(EPOCHS)])
    for slot in (0, BATCH - 1):
        assert faults(batches[:, slot], POPULATION, share(POPULATION, "frames")) == []
    for expected in (with_replacement("frames"), of_different_bursts()):
        assert not agree(pairs(batches), expected)
