"""One feature for a whole video: the mean or the greatest of those of its samples."""

from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from headrace.extraction.features.folder import FeatureFolder
from headrace.extraction.features.table_row import VideoName

Pooling = Literal["mean", "max"]
"""How features of a video become one, number by number."""
POOLINGS: Final[tuple[Pooling, ...]] = ("mean", "max")


@dataclass(frozen=True, kw_only=True, eq=False)
class PooledVideo:
    """One video as one feature."""

    video: VideoName
    n: int
    """Samples it was pooled over."""
    lost: int
    """Samples that were asked for and did not come, without those of chunks that failed."""
    failed: int
    """Chunks that failed as a whole."""
    feature: NDArray[np.float32] | None
    """float32 [...]; None where there was no sample."""


def pooled(folder: FeatureFolder, name: str, by: Pooling) -> PooledVideo:
    """Return one feature for a video; reads it chunk by chunk. Sums are exact to float64.

    Raises:
        ConfigError: a table is damaged, or cannot be read.
    """
    listed = folder.videos[name]
    video = VideoName(name=name, path=listed.path, content=None)
    n = lost = 0
    failed = len(listed.failed)
    so_far: NDArray[Any] | None = None
    for row in folder.rows(name):
        video = row.video
        lost += len(row.lost)
        failed += row.status == "failed"
        if not len(row.samples):
            continue
        n += len(row.samples)
        found = _of_chunk(row.samples.features, by)
        so_far = found if so_far is None else _joined(so_far, found, by)
    feature = so_far if so_far is None or by == "max" else so_far / n
    return PooledVideo(
        video=video,
        n=n,
        lost=lost,
        failed=failed,
        feature=None if feature is None else feature.astype(np.float32),
    )


def _of_chunk(features: NDArray[Any], by: Pooling) -> NDArray[Any]:
    found: NDArray[Any]
    with np.errstate(invalid="ignore"):  # a feature may be infinite, or none; so is what it gives
        found = features.max(axis=0) if by == "max" else features.sum(axis=0, dtype=np.float64)
    return found


def _joined(first: NDArray[Any], second: NDArray[Any], by: Pooling) -> NDArray[Any]:
    found: NDArray[Any]
    with np.errstate(invalid="ignore"):
        found = np.maximum(first, second) if by == "max" else first + second
    return found
