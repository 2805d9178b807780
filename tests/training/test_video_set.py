"""A sampler is adapted to the videos that were opened."""

import numpy as np
import pytest

from headrace.errors import ConfigError
from headrace.sampling.clips import RandomClips, UniformClips
from headrace.sampling.frames import InOrder, Permutation, Uniform
from headrace.training.video_set import VideoSet, population_for


@pytest.fixture(scope="module")
def opened(videos, store, tmp_path_factory):
    """Four videos, and one that cannot be opened before them."""
    text = tmp_path_factory.mktemp("text") / "text.mp4"
    text.write_text("this is no video")
    return VideoSet.open([text, *videos], skip_bad=True, store=store)


@pytest.fixture
def adapted(opened):
    def adapt(sampler, seed=None):
        return opened.adapted(sampler, opened.use(seed=seed, batch_size=1, ranks=1))

    return adapt


def test_a_seed_that_is_given_is_that_of_a_sampler_without_one(adapted):
    assert adapted(Uniform(), 7) == Uniform(seed=7)
    assert adapted(Uniform(seed=3)) == adapted(Uniform(seed=3), 3) == Uniform(seed=3)
    assert adapted(RandomClips(num_frames=3), 7) == RandomClips(num_frames=3, seed=7)
    assert adapted(InOrder(), 7) == InOrder()


def test_weights_are_kept_of_the_videos_that_were_opened(adapted):
    for kind in (Uniform, Permutation):
        assert adapted(kind(over=(9.0, 1.0, 2.0, 3.0, 4.0))) == kind(over=(1.0, 2.0, 3.0, 4.0))


@pytest.mark.parametrize(
    "clips", [RandomClips(num_frames=19), UniformClips(num_clips=2, num_frames=19)]
)
def test_the_file_that_is_too_short_for_a_clip_is_named(adapted, clips):
    with pytest.raises(ConfigError, match=r"needs 19 frames, .*video-3\.mp4 has 18 \(and 0 more"):
        adapted(clips)


def test_clips_that_may_run_over_the_end_fit_every_video(adapted):
    clips = RandomClips(num_frames=99, boundary="wrap")
    assert adapted(clips, 0) == clips


def test_durations_are_read_only_where_a_sampler_needs_them(opened):
    assert population_for(Permutation().traits, opened).shown_until is None
    timed = population_for(Permutation(over="seconds").traits, opened)
    assert timed.shown_until is not None
    assert np.array_equal(timed.video_start, opened.population.video_start)


@pytest.mark.parametrize("videos", ["https://u:pass@h/a.mp4", ["https://u:pass@h/a.mp4"]])
def test_an_address_is_refused_without_its_password(videos, store):
    with pytest.raises(ConfigError, match=r"^https://\.\.\. is an address") as found:
        VideoSet.open(videos, skip_bad=True, store=store)
    assert "pass" not in str(found.value)
