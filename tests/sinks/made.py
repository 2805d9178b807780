"""Made-up results of models, and a full disk."""

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
    """Return `count` black frames from index `first`, of a video with 30 frames/s."""
    index = np.arange(first, first + count)
    black = np.zeros((count, *size, 3), np.uint8)
    base = Fraction(1, 90_000)
    return FrameBatch(frames=black, video=video, index=index, pts=index * 3000, time_base=base)


def labelled_frames(
    first: int, count: int, *, video: int = 0, top_k: int = 1
) -> BatchResults[Labels]:
    """Return frames with the classes cat, dog and owl, the likeliest first."""
    names, confidence = ("cat", "dog", "owl")[:top_k], (0.75, 0.125, 0.0625)[:top_k]
    labels = Labels(names=(names,) * count, confidence=(confidence,) * count)
    return BatchResults(batch=frames(first, count, video=video, size=(2, 2)), output=labels)


def boxes(count: int) -> Boxes:
    """Return a dog and a person in the first image, and no boxes in the others."""
    empty = count - 1
    return Boxes(
        xyxy=(np.float32([DOG, (0, 0, 5, 5)]), *[np.zeros((0, 4), np.float32)] * empty),
        classes=(np.array([18, 1]), *[np.zeros(0, np.int64)] * empty),
        labels=(("dog", "person"), *[()] * empty),
        scores=(np.float32([0.75, 0.5]), *[np.zeros(0, np.float32)] * empty),
    )


def frames_with_boxes(first: int, count: int, *, video: int = 0) -> BatchResults[Boxes]:
    """Return frames of 80x100 (height x width) with boxes."""
    return BatchResults(
        batch=frames(first, count, video=video, size=(80, 100)), output=boxes(count)
    )


def images_with_boxes(*names: str) -> BatchResults[Boxes]:
    """Return images of 80x100 (height x width), from a folder `in`."""
    batch = frames(0, len(names), video=0, size=(80, 100))
    fields = vars(batch) | {"pts": batch.pts * 0, "time_base": Fraction(1)}
    files = tuple(ImageFile(path=Path("in") / n, name=n, size=(80, 100)) for n in names)
    return BatchResults(batch=ImageBatch(**fields, pictures=files), output=boxes(len(names)))


def noise(count: int) -> Iterator[np.ndarray]:
    """Yield frames of about 35 kB each, encoded."""
    generator = np.random.default_rng(0)
    for _ in range(count):
        yield generator.integers(0, 256, (240, 320, 3), np.uint8)


@contextmanager
def disk_full_after(num_bytes: int) -> Iterator[None]:
    """Limit files to `num_bytes`, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
