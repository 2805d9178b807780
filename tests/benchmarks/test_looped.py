"""A looped video is its clip, again and again."""

import numpy as np

from benchmarks.looped import looped
from headrace import read_frames
from headrace.testing.synth import SynthClip, write_clip


def test_a_looped_video_shows_the_clip_so_many_times(tmp_path):
    clip = write_clip(tmp_path / "clip", SynthClip(num_frames=30, b_frames=2))
    longer = looped(clip, 3)
    frames = np.concatenate([batch.frames for batch in read_frames([longer])])
    once = np.concatenate([batch.frames for batch in read_frames([clip])])
    assert len(frames) == 90
    assert all(np.array_equal(frames[start : start + 30], once) for start in (0, 30, 60))


def test_it_is_made_once(tmp_path):
    clip = write_clip(tmp_path / "clip", SynthClip(num_frames=6))
    made = looped(clip, 2).stat().st_mtime_ns
    assert looped(clip, 2).stat().st_mtime_ns == made
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".mp4", ".mp4"]
