"""What a detector found, made up."""

from fractions import Fraction
from pathlib import Path

import numpy as np

from headrace.decode.pictures import PictureFile
from headrace.extraction.picture_reader import PictureBatch
from headrace.models.results import Boxes
from headrace.sinks.seen import Found
from headrace.video.frames import FrameBatch

DOG = (10.0, 20.0, 30.0, 60.0)
"""Left, top, right, bottom."""


def boxes(count: int) -> Boxes:
    """Return a dog and a person in the first picture, nothing in the others."""
    empty = count - 1
    return Boxes(
        xyxy=(np.float32([DOG, (0, 0, 5, 5)]), *[np.zeros((0, 4), np.float32)] * empty),
        classes=(np.array([18, 1]), *[np.zeros(0, np.int64)] * empty),
        labels=(("dog", "person"), *[()] * empty),
        scores=(np.float32([0.75, 0.5]), *[np.zeros(0, np.float32)] * empty),
    )


def found_frames(first: int, count: int, *, video: int = 0) -> Found:
    """Return frames `first`, `first` + 1... of a video of 30 frames/s, 80x100 (height x width)."""
    index = np.arange(first, first + count)
    batch = FrameBatch(
        frames=np.zeros((count, 80, 100, 3), np.uint8),
        video=video,
        index=index,
        pts=index * 3000,
        time_base=Fraction(1, 90_000),
    )
    return Found(batch=batch, boxes=boxes(count))


def found_pictures(*names: str) -> Found:
    """Return pictures, 80x100 (height x width), from a folder `in`."""
    files = [PictureFile(path=Path("in") / name, name=name, size=(80, 100)) for name in names]
    batch = PictureBatch(
        frames=np.zeros((len(names), 80, 100, 3), np.uint8),
        video=0,
        index=np.arange(len(names)),
        pts=np.zeros(len(names), np.int64),
        time_base=Fraction(1),
        pictures=tuple(files),
    )
    return Found(batch=batch, boxes=boxes(len(names)))
