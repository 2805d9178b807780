"""Decoded pixels with their places in time; wrong shapes cannot be built."""

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError


def _none_of_them() -> NDArray[np.bool_]:
    return np.zeros(0, np.bool_)


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
    is_concealed: NDArray[np.bool_] = field(default_factory=_none_of_them)
    """bool [T]: the frame is damaged, and shown as FFmpeg shows it; all false unless asked for."""

    def __post_init__(self) -> None:
        _check_frames(self.frames, self.index, self.pts_seconds)
        _fill(self)

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
    is_concealed: NDArray[np.bool_] = field(default_factory=_none_of_them)
    """bool [N]: the frame is damaged, and shown as FFmpeg shows it; all false unless asked for."""

    def __post_init__(self) -> None:
        _check_frames(self.frames, self.index, self.pts_seconds)
        _fill(self)

    def __len__(self) -> int:
        return len(self.frames)


def _fill(pictures: Clip | FrameBatch) -> None:
    if not len(pictures.is_concealed):
        object.__setattr__(pictures, "is_concealed", np.zeros(len(pictures.index), np.bool_))


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
