"""Decoded pixels with their places in time; wrong shapes cannot be built."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError


@dataclass(frozen=True, kw_only=True, eq=False)
class Clip:
    """`num_frames` frames of one video, `stride` apart."""

    frames: NDArray[np.uint8]
    """uint8 [T, H, W, 3] in [0, 255], RGB, upright; owned by the caller."""
    index: NDArray[np.int64]
    """int64 [T]: place of each frame in presentation order."""
    pts_seconds: NDArray[np.float64]
    """float64 [T]: presentation time of each frame."""
    frame_rate: Fraction
    """Average frame rate of the video the frames come from, frames per second."""
    source: str
    """The path the frames come from."""

    def __post_init__(self) -> None:
        _check_frames(self.frames, self.index, self.pts_seconds)

    def __len__(self) -> int:
        return len(self.frames)


@dataclass(frozen=True, kw_only=True, eq=False)
class FrameBatch:
    """Frames of one video in presentation order."""

    frames: NDArray[np.uint8]
    """uint8 [N, H, W, 3] in [0, 255], RGB, upright; owned by the caller."""
    video: int
    """Place of the video in the list that was asked for."""
    index: NDArray[np.int64]
    """int64 [N]: place of each frame in presentation order."""
    pts_seconds: NDArray[np.float64]
    """float64 [N]: presentation time of each frame."""

    def __post_init__(self) -> None:
        _check_frames(self.frames, self.index, self.pts_seconds)

    def __len__(self) -> int:
        return len(self.frames)


def _check_frames(
    frames: NDArray[np.uint8], index: NDArray[np.int64], pts_seconds: NDArray[np.float64]
) -> None:
    if frames.ndim != 4 or frames.shape[-1] != 3 or frames.dtype != np.uint8:
        raise ConfigError(
            f"frames must be uint8 [N, H, W, 3], got {frames.dtype} {list(frames.shape)}"
        )
    if not len(frames) == len(index) == len(pts_seconds):
        raise ConfigError(
            f"{len(frames)} frames cannot go with {len(index)} indices and {len(pts_seconds)} times"
        )
