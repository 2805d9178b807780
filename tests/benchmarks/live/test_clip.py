"""Tests of benchmarks/live/clip.py: every frame of the clip tells which one it is."""

from pathlib import Path

import numpy as np

from benchmarks.live.clip import grey_thumbnails, number_of, numbered_clip
from media import read_frames, rgb


def test_each_frame_carries_its_number_in_rgb_and_bgr(clip: Path) -> None:
    pictures = [rgb(frame) for frame in read_frames(clip)]
    assert [number_of(picture) for picture in pictures] == list(range(120))
    assert number_of(pictures[7][..., ::-1]) == 7


def test_a_clip_that_is_there_is_not_made_again(clip: Path) -> None:
    before = clip.stat().st_mtime_ns
    assert numbered_clip(clip.parents[1], 4) == clip
    assert clip.stat().st_mtime_ns == before


def test_thumbnails_are_the_same_of_rgb_and_bgr() -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (2, 720, 1280, 3), np.uint8)
    thumbnails = grey_thumbnails(pictures)
    assert thumbnails.shape == (2, 32, 32, 1)
    assert np.allclose(thumbnails, grey_thumbnails(pictures[..., ::-1]), atol=0.1)
