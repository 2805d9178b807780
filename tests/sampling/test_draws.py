"""Draws are functions of their number, and every slot of every sampler has the law it should have.

Seeds are fixed, and the level of the tests is 1e-9: they fail when the code changes, not by chance.
"""

from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import Bursts, Population, RandomClips, ShuffledFrames, UniformFrames
from headrace.sampling.counter_rng import CounterRng, Feistel, RngStream, philox
from headrace.sampling.sampling_weights import VideoOrder
from sampling import kit

NUMBERED = CounterRng(seed=12, epoch=3, purpose=RngStream.FRAME)


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0, 0, 0), 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((2**32 - 1,) * 4, 2**64 - 1, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            0x299F31D0A4093822,
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_gives_the_known_answers_of_its_authors(counter, key, expected):
    words = philox(tuple(np.array([word], np.uint64) for word in counter), key)
    assert tuple(int(word[0]) for word in words) == expected


@given(numbers=st.lists(st.integers(0, 2**62), min_size=1))
def test_a_draw_does_not_depend_on_what_is_drawn_with_it(numbers):
    together = NUMBERED.integers(np.array(numbers), 1000)
    assert together.tolist() == [int(NUMBERED.integers(number, 1000)) for number in numbers]


@pytest.mark.parametrize(
    "other",
    [
        CounterRng(seed=13, epoch=3, purpose=RngStream.FRAME),
        CounterRng(seed=12 + (1 << 32), epoch=3, purpose=RngStream.FRAME),
        CounterRng(seed=12, epoch=4, purpose=RngStream.FRAME),
        CounterRng(seed=12, epoch=3, purpose=RngStream.SHUFFLE),
    ],
)
def test_seed_epoch_and_purpose_each_make_other_draws(other):
    numbers = np.arange(100)
    assert not np.intersect1d(NUMBERED.words(numbers), other.words(numbers)).size


@given(number=st.integers(0, 2**62), below=st.integers(1, 2**63 - 1))
def test_integers_are_the_high_word_of_the_exact_product(number, below):
    expected = int(NUMBERED.words(number)) * below >> 64
    assert int(NUMBERED.integers(number, below)) == expected
    assert 0 <= expected < below


def is_uniform(values, below: int) -> bool:
    """Whether each of 12 equal parts of the range has about as many."""
    cells = values.astype(np.float64) // (below / 12)
    return kit.is_uniform(np.bincount(cells.astype(int), minlength=12))


@pytest.mark.parametrize("below", [12, 1200, 3 << 30, 3 << 61])
def test_integers_are_uniform_in_any_range(below):
    assert is_uniform(NUMBERED.integers(np.arange(20_000), below), below)


def test_fractions_are_uniform_and_below_1_and_words_modulo_a_range_are_told_from_integers():
    below = 3 << 30
    modulo = (NUMBERED.words(np.arange(20_000)) & np.uint64(2**32 - 1)) % np.uint64(below)
    assert not is_uniform(modulo, below)
    fractions = NUMBERED.fractions(np.arange(20_000))
    assert 0 <= fractions.min() < fractions.max() < 1
    assert is_uniform(fractions * 12, 12)


def test_every_draw_has_its_own_range():
    assert NUMBERED.integers(np.arange(500), np.array([1, 2] * 250))[::2].tolist() == [0] * 250


def shuffle(size: int, seed: int = 0) -> Feistel:
    return Feistel(size=size, draws=CounterRng(seed=seed, epoch=0, purpose=RngStream.SHUFFLE))


@given(size=st.integers(1, 3000), seed=st.integers(0, 2**64 - 1))
def test_every_thing_stands_somewhere_once(size, seed):
    assert np.sort(shuffle(size, seed).at(np.arange(size))).tolist() == list(range(size))


@given(size=st.integers(1, 2**62), seed=st.integers(0, 100), data=st.data())
def test_a_thing_is_found_where_it_stands(size, seed, data):
    positions = np.array(data.draw(st.lists(st.integers(0, size - 1), min_size=1)))
    things = shuffle(size, seed).at(positions)
    assert 0 <= things.min() <= things.max() < size
    assert shuffle(size, seed).position_of(things).tolist() == positions.tolist()


@pytest.mark.parametrize("size", [3, 4, 5])
def test_all_orders_of_few_things_are_as_frequent(size):
    number = {order: k for k, order in enumerate(permutations(range(size)))}
    places = np.arange(size)
    orders = [number[tuple(shuffle(size, seed).at(places).tolist())] for seed in range(1500)]
    assert kit.is_uniform(np.bincount(orders, minlength=len(number)))


@pytest.mark.parametrize(("size", "seeds"), [(6, 4000), (12, 1500)])
def test_neighbours_are_any_pair(size, seeds):
    """With 6 rounds, the first case fails."""
    pairs = np.array([shuffle(size, seed).at(np.arange(2)) for seed in range(seeds)])
    counts = np.bincount(pairs @ [size, 1], minlength=size * size).reshape(size, size)
    assert not np.diag(counts).any()
    assert kit.is_uniform(counts[~np.eye(size, dtype=bool)])


def test_steps_between_neighbours_in_a_long_order_are_spread():
    size = 1_000_003
    steps = np.diff(shuffle(size).at(np.arange(20_000))) % size
    assert kit.is_uniform(np.bincount(steps * 50 // size, minlength=50))


WEIGHTS = np.array([2.5, 1.5, 0.4, 0.3, 0.3])


VIDEOS = np.arange(len(WEIGHTS))


@pytest.mark.parametrize(
    "draws",
    [[(0, epoch) for epoch in range(1000)], [(seed, 0) for seed in range(1000)]],
    ids=["epochs", "seeds"],
)
def test_the_frequency_of_a_video_is_its_share_rounded_and_exact_on_average(draws):
    visits = [VideoOrder.shuffled(VIDEOS, WEIGHTS, seed=seed, epoch=epoch) for seed, epoch in draws]
    counts = np.array([np.bincount(each.at(VIDEOS), minlength=len(VIDEOS)) for each in visits])
    assert set(np.unique(counts - np.floor(WEIGHTS).astype(int))) == {0, 1}
    part = WEIGHTS - np.floor(WEIGHTS)
    error = np.sqrt(part * (1 - part) / len(draws))
    assert (np.abs(counts.mean(axis=0) - WEIGHTS) <= 4 * error).all()


SIZE = 10
"""Frames in a burst."""


def cut_at_video_end(population: Population, n: int, rng) -> np.ndarray:
    """A seek to a uniform frame, then a run that stops where the video does: starts come less."""
    first = rng.integers(population.num_frames, size=(n, 1))
    frames = first + np.arange(SIZE)
    end = population.video_start[population.video_of(first) + 1]
    return one_in_stream(frames, frames < end, rng)


def start_early_enough(population: Population, n: int, rng) -> np.ndarray:
    """A start uniform among those that leave room for the burst: both ends come less."""
    video = population.video_of(rng.integers(population.num_frames, size=n))
    start = rng.integers(population.frames_per_video[video] - SIZE + 1)
    return population.frame_ids(video, start + rng.integers(SIZE, size=n))


def snapped_to_keyframe(population: Population, n: int, rng) -> np.ndarray:
    """A seek that stops at the keyframe: frames deep in a GOP never come."""
    gop = population.gop_of(rng.integers(population.num_frames, size=n))
    step = rng.integers(np.minimum(SIZE, population.gop_lengths[gop]))
    return population.gop_start[gop] + step


def uniform_over_gops(population: Population, n: int, rng) -> np.ndarray:
    """Any GOP alike, then a uniform frame of it: frames of long GOPs come less."""
    gop = rng.integers(population.num_gops, size=n)
    return population.gop_start[gop] + rng.integers(population.gop_lengths[gop])


def without_leading_frames(population: Population, n: int, rng) -> np.ndarray:
    """Frames that cannot be decoded after a seek into an open GOP are left out."""
    frames = rng.integers(population.num_frames, size=(n, 1))
    step = frames - population.gop_start[population.gop_of(frames)]
    return one_in_stream(frames, step != 1, rng)


def first_ready(population: Population, n: int, rng) -> np.ndarray:
    """Of 4 readers the one that decoded least delivers first: frames near keyframes come first."""
    frames = rng.integers(population.num_frames, size=(n, 4))
    work = frames - population.gop_start[population.gop_of(frames)]
    return frames[np.arange(n), work.argmin(1)]


def without_rotation(population: Population, n: int, rng) -> np.ndarray:
    """Bursts of unequal size, shuffled, read from the first on: short ones come first too often."""
    gops = pairwise(population.gop_start)
    return rng.choice(np.concatenate([np.arange(first, stop, SIZE) for first, stop in gops]), n)


def same_epoch_again(population: Population, n: int, rng) -> np.ndarray:
    """A seed that forgets the epoch: each begins with the same frame."""
    return np.repeat(ShuffledFrames(seed=3).order(population, 0)[:1], n)


def modulo(population: Population, n: int, rng) -> np.ndarray:
    """A random word modulo the number of frames, which is not much smaller: low ones come twice."""
    return rng.integers(1024, size=n) % population.num_frames


def one_in_stream(frames, is_delivered, rng) -> np.ndarray:
    """A frame of each row; a row comes the more often the more of it is delivered."""
    stream = frames[is_delivered]
    return stream[rng.integers(len(stream), size=len(frames))]


POPULATION = kit.uneven()


DRAWS = 2000


OVER = ["frames", "seconds", "videos", tuple(range(1, 13))]


@pytest.mark.parametrize("over", OVER)
def test_independent_draws_have_the_law_that_was_asked_for_and_are_told_from_others(over):
    order = [UniformFrames(over=over, seed=2).order(POPULATION, epoch)[:] for epoch in range(40)]
    frames = np.concatenate(order)
    assert kit.faults(frames, POPULATION, kit.share(POPULATION, over)) == []
    others = kit.faults(frames, POPULATION, kit.share(POPULATION, "frames"))
    assert bool(others) == (over != "frames")


@pytest.mark.parametrize(
    ("sampler", "over"),
    [
        (Bursts(frames_per_burst=6, lanes=32), "frames"),
        (RandomClips(num_frames=4, stride=3, boundary="wrap", each_once="starts"), "frames"),
        (RandomClips(num_frames=4, stride=3, boundary="wrap"), "videos"),
        (RandomClips(num_frames=4, stride=3, boundary="wrap", weights=OVER[3]), OVER[3]),
        *[(ShuffledFrames(over=over, seed=1), over) for over in OVER],
    ],
)
def test_first_middle_and_last_slot_of_an_epoch_have_it_over_epochs(sampler, over):
    """Of clips, their first frame."""
    last = len(sampler.order(POPULATION, 0)) - 1
    slots = np.array([0, last // 2, last])
    held = np.array([sampler.order(POPULATION, epoch).at(slots) for epoch in range(DRAWS)])
    for column in held.reshape(DRAWS, 3, -1)[:, :, 0].T:
        assert kit.faults(column, POPULATION, kit.share(POPULATION, over)) == []


@pytest.mark.parametrize(
    "mutant",
    [
        *(cut_at_video_end, start_early_enough, snapped_to_keyframe, uniform_over_gops),
        *(without_leading_frames, first_ready, without_rotation, same_epoch_again, modulo),
    ],
)
def test_a_broken_sampler_is_told_from_a_uniform_one(mutant):
    frames = mutant(POPULATION, DRAWS, np.random.default_rng(5))
    assert kit.faults(frames, POPULATION, kit.share(POPULATION, "frames"))


def test_thresholds_for_20000_draws_in_50_cells():
    assert kit.g_threshold(50) == pytest.approx(217.6, abs=0.05)
    assert kit.binomial_bounds(20_000, 1 / 50, 1e-9 / 50) == (275, 540)
    assert kit.dkw_threshold(20_000) == pytest.approx(0.0231, abs=0.00005)


def test_uniform_draws_of_another_generator_have_no_faults():
    total, rng = POPULATION.num_frames, np.random.default_rng(11)
    for _ in range(50):
        draws = rng.integers(total, size=4000)
        assert kit.faults(draws, POPULATION, np.full(total, 1 / total)) == []
