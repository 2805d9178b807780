"""What a model saw, made up."""

from fractions import Fraction

import numpy as np

from headrace.models.results import Labels
from headrace.sinks.seen import Seen
from headrace.video.frames import FrameBatch


def seen_frames(first: int, count: int, *, video: int = 0, top_k: int = 1) -> Seen:
    """Return frames `first`, `first` + 1... of a video of 30 frames/s: cats, then dogs, then..."""
    index = np.arange(first, first + count)
    names = ("cat", "dog", "owl")[:top_k]
    return Seen(
        batch=FrameBatch(
            frames=np.zeros((count, 2, 2, 3), np.uint8),
            video=video,
            index=index,
            pts=index * 3000,
            time_base=Fraction(1, 90_000),
        ),
        labels=Labels(names=(names,) * count, confidence=((0.75, 0.125, 0.0625)[:top_k],) * count),
    )
