"""Check that two libraries deliver the same frames, before they are timed.

Libraries scale differently, so their pixels differ. Two conditions must hold: both deliver the same
number of frames of each file, and each delivered frame is nearer to the reference frame with its
index than to the neighbors of that frame. Frames are compared as thumbnails of 32x32 means.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.adapters import Chunk

SIDE = 32
MARGIN = 0.05
"""Gray levels by which a neighbor must be nearer for a frame to count as wrong.

In a nearly still scene, neighbors may differ less than two scalers: by up to 0.035 less where all
frames were right. With this margin, a shift by one frame is still detected in 95 of 100 cases.
"""

Pictures = NDArray[np.float16]
"""float16 [N, 32, 32, 3] in [0, 255]: all frames of one file, in delivery order."""


@dataclass(frozen=True, kw_only=True)
class Equality:
    """Agreement of one library's frames with the reference."""

    frames: int
    """Frames of the reference."""
    missing: int
    """Missing and surplus frames of all files."""
    wrong: int
    """Frames nearer to a neighbor of the right frame."""
    max_mean_difference: float
    """Largest mean difference of a frame from the reference frame, in gray levels."""

    @property
    def holds(self) -> bool:
        """Whether every frame was delivered at its position."""
        return self.missing == 0 and self.wrong == 0


def thumbnails(chunks: Iterable[Chunk], num_files: int) -> list[Pictures]:
    """Return the thumbnails of each file; ValueError if frames are out of order."""
    files: list[list[Pictures]] = [[] for _ in range(num_files)]
    counts = [0] * num_files
    for path_index, first_index, frames in chunks:
        if first_index != counts[path_index]:
            raise ValueError(
                f"file {path_index}: frame {first_index} came after {counts[path_index]} frames"
            )
        counts[path_index] += len(frames)
        files[path_index].append(shrink(frames))
    empty = np.empty((0, SIDE, SIDE, 3), np.float16)
    return [np.concatenate([empty, *chunks]) for chunks in files]


def compare(reference: Sequence[Pictures], delivered: Sequence[Pictures]) -> Equality:
    """Compare file by file; both have the same files in the same order."""
    counts = [min(map(len, files)) for files in zip(reference, delivered, strict=True)]
    requests = [(video, index) for video, count in enumerate(counts) for index in range(count)]
    frames = np.concatenate([file[:count] for file, count in zip(delivered, counts, strict=True)])
    equality = compare_picked(reference, np.array(requests, np.int64).reshape(-1, 2), frames)
    longer = [max(map(len, files)) for files in zip(reference, delivered, strict=True)]
    missing = sum(longer) - sum(counts)
    return replace(equality, frames=sum(map(len, reference)), missing=missing)


def compare_picked(
    reference: Sequence[Pictures], requests: NDArray[np.int64], frames: Pictures
) -> Equality:
    """Compare frames requested by (video, index), int64 [N, 2], one by one."""
    flat = np.concatenate(reference)
    lengths = np.array([len(file) for file in reference])
    starts = (np.cumsum(lengths) - lengths)[requests[:, 0]]
    last = lengths[requests[:, 0]] - 1
    distances = _distances(flat[starts + requests[:, 1]], frames)
    is_wrong = np.zeros(len(frames), bool)
    for step in (-1, 1):
        neighbors = flat[starts + np.clip(requests[:, 1] + step, 0, last)]
        is_wrong |= _distances(neighbors, frames) + MARGIN < distances
    largest, wrong = round(float(distances.max(initial=0.0)), 3), int(is_wrong.sum())
    return Equality(frames=len(frames), missing=0, wrong=wrong, max_mean_difference=largest)


def shrink(frames: NDArray[np.uint8]) -> Pictures:
    """Return thumbnails of frames, uint8 [N, H, W, 3]; H and W are multiples of 32."""
    count, height, width, channels = frames.shape
    blocks = frames.reshape(count, SIDE, height // SIDE, SIDE, width // SIDE, channels)
    means: NDArray[np.float32] = blocks.mean(axis=(2, 4), dtype=np.float32)
    return means.astype(np.float16)


def _distances(expected: Pictures, frames: Pictures) -> NDArray[np.float64]:
    """Return the mean absolute difference of each pair of thumbnails."""
    difference = np.abs(expected.astype(np.float32) - frames.astype(np.float32))
    means: NDArray[np.float64] = difference.mean(axis=(1, 2, 3), dtype=np.float64)
    return means
