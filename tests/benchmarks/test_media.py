"""Shots of the videos, without encoding them, and looped videos."""

from itertools import pairwise

import numpy as np
import pytest

from benchmarks.media import CLIPS, NUM_FRAMES, Shot, loop_media, shots
from headrace import read_frames
from headrace.testing.synth import SynthClip, write_clip


@pytest.mark.parametrize("number", range(40))
def test_shots_lie_inside_their_clips(number):
    cut = shots(number)
    assert sum(len(shot.indices()) for shot in cut) == NUM_FRAMES
    for shot in cut:
        clip = CLIPS[shot.clip]
        assert set(shot.indices()) <= set(range(clip.num_frames))
        assert shot.top + shot.crop_height <= clip.height
        assert shot.left + shot.crop_width <= clip.width


@pytest.mark.parametrize("number", range(40))
def test_neighbors_are_different_frames(number):
    """Otherwise, no comparison could tell a frame from its neighbor."""
    for shot in shots(number):
        assert all(index != following for index, following in pairwise(shot.indices()))


def test_a_shot_plays_backwards_at_the_end_of_its_clip():
    last = CLIPS[0].num_frames - 1
    shot = Shot(0, last - 5, 2, 8, 0, 0, 90, 160, mirrored=False)
    assert [index - last for index in shot.indices()] == [-5, -3, -1, -3, -5, -3, -1, -3]


def test_videos_differ_and_are_repeatable():
    plans = [tuple(shots(number)) for number in range(40)]
    assert len(set(plans)) == 40
    assert plans == [tuple(shots(number)) for number in range(40)]


def test_a_looped_video_repeats_its_clip(tmp_path):
    clip = write_clip(tmp_path / "clip", SynthClip(num_frames=30, b_frames=2))
    longer = loop_media(clip, 3)
    frames = np.concatenate([batch.frames for batch in read_frames([longer])])
    once = np.concatenate([batch.frames for batch in read_frames([clip])])
    assert len(frames) == 90
    assert all(np.array_equal(frames[start : start + 30], once) for start in (0, 30, 60))


def test_a_looped_video_is_created_once(tmp_path):
    clip = write_clip(tmp_path / "clip", SynthClip(num_frames=6))
    changed = loop_media(clip, 2).stat().st_mtime_ns
    assert loop_media(clip, 2).stat().st_mtime_ns == changed
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".mp4", ".mp4"]
