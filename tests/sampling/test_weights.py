"""Weights of videos: by place or by path, for frames and clips alike, and what is refused."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

from headrace.errors import ConfigError
from headrace.sampling.clips import RandomClips
from headrace.sampling.frames import Permutation, Uniform
from headrace.sampling.population import Population
from headrace.sampling.sampler import SamplerUse, adapted
from headrace.sampling.spread import SpreadClips
from headrace.video.source import Source

KINDS = {
    "Uniform": lambda weights: Uniform(over=weights),
    "Permutation": lambda weights: Permutation(over=weights),
    "RandomClips": lambda weights: RandomClips(num_frames=2, weights=weights),
    "SpreadClips": lambda weights: SpreadClips(num_segments=2, weights=weights),
}
USE = SamplerUse(videos=np.array([0, 2, 3]), videos_given=4, paths=("a.mp4", "c.mp4", "d.mp4"))
BY_PATH = {"a.mp4": 1.0, "c.mp4": 0.0, "d.mp4": 2.5, "elsewhere.mp4": 9.0}

kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))


def kept(sampler):
    return sampler.over if isinstance(sampler, Uniform | Permutation) else sampler.weights


@kinds
@pytest.mark.parametrize(
    "weights",
    [
        (1, 7, 0, 2.5),
        [1.0, 7.0, 0.0, 2.5],
        np.array([1, 7, 0, 2.5]),
        np.array([1, 7, 0, 2.5], np.float32),
        torch.tensor([1, 7, 0, 2.5]),
        [Fraction(1), 7, "0", "5/2"],
        BY_PATH,
        {Path(path): weight for path, weight in BY_PATH.items()},
        {Source(path): weight for path, weight in BY_PATH.items()},
    ],
    ids=str,
)
def test_weights_in_any_form_are_those_of_the_videos_that_were_opened(kind, weights):
    assert kept(adapted(kind(weights), USE)) == (1.0, 0.0, 2.5)


@kinds
def test_whole_numbers_may_be_weights(kind):
    counts = np.bincount([0, 0, 1, 2, 2, 2, 3])
    assert kept(kind(counts)) == (2.0, 1.0, 3.0, 1.0)


@kinds
def test_what_is_changed_later_changes_nothing(kind):
    given = dict(BY_PATH)
    sampler = kind(given)
    given["a.mp4"] = 5.0
    assert kept(adapted(sampler, USE)) == (1.0, 0.0, 2.5)


@kinds
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([], "at least 0 and not all 0, got \\[\\]"),
        ({}, "not all 0, got \\[\\]"),
        ([[1.0], [2.0]], r"must be numbers, one for each video, got \[2, 1\] values"),
        ([[1.0], [2.0, 3.0]], "must be numbers, one for each video"),
        ([0, 0], "weights must be finite, at least 0 and not all 0, got"),
        ({"a.mp4": 0}, "not all 0"),
        ([1, -2], "not all 0, got -2 for number 1"),
        ([1, float("nan")], "got nan for number 1"),
        ([1e308, 1e308], "must be finite"),
        ({"a.mp4": 1, "b.mp4": -3}, r"got -3 for b\.mp4"),
        ({"a.mp4": "much"}, "each of weights must be a finite number"),
        ([True, False], "each of weights must be a finite number"),
        ([None, 1], "each of weights must be a finite number"),
        ({0: 1.0}, "weights must be by path, got 0"),
        ({"a.mp4": 1, Path("a.mp4"): 2}, "name a path twice"),
        (3.0, r"weights must be numbers, .* or a mapping from paths to numbers, got '3\.0'"),
    ],
    ids=str,
)
def test_what_are_no_weights_is_refused(kind, weights, message):
    with pytest.raises(ConfigError, match=message) as caught:
        kind(weights)
    assert "\n" not in str(caught.value)


@kinds
def test_weights_that_do_not_fit_the_videos_are_refused(kind):
    missing = {"a.mp4": 1.0, "x/d.mp4": 1.0}
    message = r"none for c\.mp4 \(and 1 more videos\); .* as it was given; .*: a\.mp4, x/d\.mp4"
    with pytest.raises(ConfigError, match=message):
        adapted(kind(missing), USE)
    with pytest.raises(ConfigError, match="needed for each of 4 videos or rows, got 2"):
        adapted(kind((1.0, 2.0)), USE)
    with pytest.raises(ConfigError, match="weights are 0 for all 3 videos that could be opened"):
        adapted(kind((0.0, 1.0, 0.0, 0.0)), USE)
    nameless = SamplerUse(videos=np.arange(3), videos_given=3)
    with pytest.raises(ConfigError, match="by path, and the paths of the videos are not known"):
        adapted(kind(BY_PATH), nameless)


@pytest.mark.parametrize("kind", list(KINDS)[:3])
def test_without_a_loader_paths_say_nothing(kind):
    population = Population.of([np.array([4]), np.array([4])])
    with pytest.raises(ConfigError, match="a mapping of weights is for a loader"):
        KINDS[kind]({"a.mp4": 1.0}).order(population, 0)
    with pytest.raises(ConfigError, match="one weight is needed for each of 2 videos or rows"):
        KINDS[kind]((1.0, 2.0, 3.0)).order(population, 0)
