"""Frames some time before and after those that a sampler gives."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.sampling.around import Around
from headrace.sampling.bursts import Bursts
from headrace.sampling.clips import UniformClips
from headrace.sampling.frames import InOrder, Permutation, Uniform
from headrace.sampling.population import Population
from headrace.sampling.sampler import SamplerUse, adapted
from sampling.timed import even, frame_times, population_of, shown_by_hand


@given(
    times=st.lists(frame_times(), min_size=1, max_size=3),
    deltas=st.lists(
        st.sampled_from([-1, -0.2, -0.1, "-1/30", 0, 0.04, 0.5]), min_size=1, max_size=4
    ),
    sampling=st.sampled_from([InOrder(stride=2), Uniform(), Permutation(seed=3)]),
)
def test_frames_are_those_shown_so_long_from_the_samplers(times, deltas, sampling):
    population = population_of(times)
    frames = sampling.order(population, 1)
    order = Around(delta_seconds=tuple(deltas), sampling=sampling).order(population, 1)
    assert len(order) == len(frames)
    pads = order.is_pad_at(np.arange(len(order)))
    for frame, clip, pad in zip(frames[:], order[:], pads, strict=True):
        video, index = (int(each) for each in population.locate(frame))
        at = [shown_by_hand(times[video], index, Fraction(str(delta))) for delta in deltas]
        assert pad.tolist() == [each is None for each in at]
        edges = [0 if Fraction(str(delta)) < 0 else len(times[video]) - 1 for delta in deltas]
        expected = [e if each is None else each for each, e in zip(at, edges, strict=True)]
        assert population.locate(clip)[1].tolist() == expected
        assert set(population.video_of(clip).tolist()) == {video}


def test_seed_batch_size_and_identity_are_those_of_the_sampler():
    population = population_of([even(400, Fraction(30), Fraction(1, 1000))])
    use = SamplerUse(videos=np.array([0]), videos_given=1, seed=7, batch_size=8)
    bursts = Bursts(frames_per_burst=4, lanes=8)
    found = adapted(Around(delta_seconds=(-0.1, 0), sampling=bursts), use)
    frames = adapted(bursts, use).order(population, 0)
    assert (found.order(population, 0)[:][:, 1] == frames[:]).all()
    assert found.traits.seed == 7
    assert found.traits.num_frames == 2
    other = adapted(Around(delta_seconds=(-0.2, 0), sampling=bursts), use)
    assert found.traits.identity != other.traits.identity
    with pytest.raises(ConfigError, match="8 lanes"):
        adapted(found, SamplerUse(videos=np.array([0]), videos_given=1, batch_size=9))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delta_seconds": ()}, "delta_seconds must be seconds, as in"),
        ({"delta_seconds": 0.1}, "delta_seconds must be seconds, as in"),
        ({"delta_seconds": (0, None)}, "each of delta_seconds must be a finite number"),
        ({"sampling": "uniform"}, "str is no sampler: it has no `traits` and no `order`"),
        ({"sampling": Uniform}, "a sampler is needed, and Uniform is a class; call it"),
        ({"sampling": UniformClips(num_clips=1, num_frames=2)}, "UniformClips gives clips; give"),
    ],
)
def test_what_is_no_time_or_no_sampler_of_frames_is_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        Around(**{"delta_seconds": (0,), "sampling": Uniform(), **options})


def test_without_times_there_is_no_before_and_after():
    with pytest.raises(ConfigError, match="give times to"):
        Around(delta_seconds=(0,), sampling=Uniform()).order(Population.of([np.array([5])]), 0)
