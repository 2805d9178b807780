"""What a model saw and found, made up; a disk that runs full, and frames that fill it."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import numpy as np

from headrace.decode.image_files import ImageFile
from headrace.extraction.image_reader import ImageBatch
from headrace.models.results import Boxes, Labels
from headrace.sinks.batch_results import BatchResults
from headrace.video.frames import FrameBatch

DOG = (10.0, 20.0, 30.0, 60.0)
"""Left, top, right, bottom."""


def frames(first: int, count: int, *, video: int, size: tuple[int, int]) -> FrameBatch:
    """Return black frames `first`, `first` + 1... of a video of 30 frames/s."""
    index = np.arange(first, first + count)
    black = np.zeros((count, *size, 3), np.uint8)
    base = Fraction(1, 90_000)
    return FrameBatch(frames=black, video=video, index=index, pts=index * 3000, time_base=base)


def seen_frames(first: int, count: int, *, video: int = 0, top_k: int = 1) -> BatchResults[Labels]:
    """Return frames that are cats, then dogs, then owls."""
    names, confidence = ("cat", "dog", "owl")[:top_k], (0.75, 0.125, 0.0625)[:top_k]
    labels = Labels(names=(names,) * count, confidence=(confidence,) * count)
    return BatchResults(batch=frames(first, count, video=video, size=(2, 2)), output=labels)


def boxes(count: int) -> Boxes:
    """Return a dog and a person in the first picture, nothing in the others."""
    empty = count - 1
    return Boxes(
        xyxy=(np.float32([DOG, (0, 0, 5, 5)]), *[np.zeros((0, 4), np.float32)] * empty),
        classes=(np.array([18, 1]), *[np.zeros(0, np.int64)] * empty),
        labels=(("dog", "person"), *[()] * empty),
        scores=(np.float32([0.75, 0.5]), *[np.zeros(0, np.float32)] * empty),
    )


def found_frames(first: int, count: int, *, video: int = 0) -> BatchResults[Boxes]:
    """Return frames of 80x100 (height x width) with boxes."""
    return BatchResults(
        batch=frames(first, count, video=video, size=(80, 100)), output=boxes(count)
    )


def found_pictures(*names: str) -> BatchResults[Boxes]:
    """Return pictures, 80x100 (height x width), from a folder `in`."""
    batch = frames(0, len(names), video=0, size=(80, 100))
    known = vars(batch) | {"pts": batch.pts * 0, "time_base": Fraction(1)}
    files = tuple(ImageFile(path=Path("in") / n, name=n, size=(80, 100)) for n in names)
    return BatchResults(batch=ImageBatch(**known, pictures=files), output=boxes(len(names)))


def noise(count: int) -> Iterator[np.ndarray]:
    """Frames that cost some 35 kB each."""
    source = np.random.default_rng(0)
    for _ in range(count):
        yield source.integers(0, 256, (240, 320, 3), np.uint8)


@contextmanager
def disk_full_after(num_bytes: int) -> Iterator[None]:
    """Let no file grow beyond `num_bytes`, as on a disk that runs full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
