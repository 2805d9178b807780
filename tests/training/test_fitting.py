"""A sampling fits the videos that were opened."""

import numpy as np
import pytest

from headrace.errors import ConfigError
from headrace.sampling.clips import RandomClips, UniformClips
from headrace.sampling.frames import InOrder, Permutation, Uniform
from headrace.training.fitting import fitted, population_for
from headrace.training.video_set import VideoSet


@pytest.fixture(scope="module")
def opened(videos, store, tmp_path_factory):
    """Four videos, and one that cannot be opened before them."""
    text = tmp_path_factory.mktemp("text") / "text.mp4"
    text.write_text("this is no video")
    return VideoSet.open([text, *videos], skip_bad=True, store=store)


def test_a_seed_that_is_given_takes_the_place_of_the_samplers_own(opened):
    assert fitted(Uniform(seed=3), 7, opened) == (Uniform(seed=7), 7)
    assert fitted(Uniform(seed=3), None, opened) == (Uniform(seed=3), 3)
    assert fitted(InOrder(), 7, opened) == (InOrder(), 7)
    assert fitted(InOrder(), None, opened) == (InOrder(), 0)


def test_weights_are_kept_of_the_videos_that_were_opened(opened):
    sampling, _ = fitted(Uniform(over=(9.0, 1.0, 2.0, 3.0, 4.0)), None, opened)
    assert sampling == Uniform(over=(1.0, 2.0, 3.0, 4.0))


@pytest.mark.parametrize(
    "clips", [RandomClips(num_frames=19), UniformClips(num_clips=2, num_frames=19)]
)
def test_the_file_that_is_too_short_for_a_clip_is_named(opened, clips):
    with pytest.raises(ConfigError, match=r"needs 19 frames, .*video-3\.mp4 has 18 \(and 0 more"):
        fitted(clips, None, opened)


def test_clips_that_may_run_over_the_end_fit_every_video(opened):
    clips = RandomClips(num_frames=99, boundary="wrap")
    assert fitted(clips, 0, opened) == (clips, 0)


def test_durations_are_read_only_where_time_is_sampled(opened):
    assert population_for(Permutation(), opened).shown_until is None
    timed = population_for(Permutation(over="seconds"), opened)
    assert timed.shown_until is not None
    assert np.array_equal(timed.video_start, opened.population.video_start)
