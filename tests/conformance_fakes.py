"""Small clips, and plain decodes made by hand, for the tests of the conformance run."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.conformance.reference import Reference, digest, thumbnail
from headrace.testing.synth import SynthClip, write_clip
from headrace.video.frame_format import Orientation


def write_numbers(folder: Path, *, num_frames: int = 24) -> Path:
    """Write a small clip of closed GOPs of six frames, with B-frames."""
    return write_clip(folder / "numbers", SynthClip(num_frames=num_frames, gop=6, b_frames=2))


def grey(level: int) -> NDArray[np.uint8]:
    """Return a picture of one level."""
    return np.full((8, 10, 3), level, np.uint8)


def reference_of(
    levels: Sequence[int],
    *,
    complaints: Sequence[int] = (),
    keyframes: Sequence[int] = (0,),
    pts: Sequence[int] | None = None,
    ordinals: Sequence[int] | None = None,
    lost_pts: Sequence[int] = (),
    orientation: Orientation | None = None,
) -> Reference:
    """Return a plain decode of grey pictures, one packet each, in order."""
    places = range(len(levels))
    pictures = [grey(level) for level in levels]
    return Reference(
        own=np.array([digest(each) for each in pictures], "U32"),
        small=np.array([digest(each[:4, :4]) for each in pictures], "U32"),
        thumbnails=np.array([thumbnail(each) for each in pictures]),
        sizes=np.array([each.shape[:2] for each in pictures]),
        pts=np.array(places if pts is None else pts, np.int64),
        ordinals=np.array(places if ordinals is None else ordinals, np.int64),
        complaints=np.unique(np.array(complaints, np.int64)),
        keyframes=np.unique(np.array(keyframes, np.int64)),
        lost_pts=np.unique(np.array(lost_pts, np.int64)),
        lines=("h264: mmco",) * len(complaints),
        is_whole=True,
        orientation=orientation or Orientation(),
        container="mov,mp4",
        codec="h264",
        size=(8, 10),
    )
