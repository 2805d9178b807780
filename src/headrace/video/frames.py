"""Decoded frames with their indices and times, and the frames that are missing or concealed."""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Self

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.video.stream_index import StreamIndex
from headrace.video.timebase import float_seconds


@dataclass(frozen=True, kw_only=True, eq=False)
class _Frames:
    """Frames of one video with their indices and times."""

    frames: NDArray[np.uint8]
    """uint8 [N, H, W, 3] in [0, 255], RGB, upright, or uint16 in [0, 65535] if requested; owned by
    the caller. If `decoding` keeps frames on a device, a tensor there, although the static type is
    an array: `torch.as_tensor` returns the same tensor."""
    index: NDArray[np.int64]
    """int64 [N]: index of each frame in presentation order."""
    pts: NDArray[np.int64]
    """int64 [N]: presentation time of each frame, in ticks of `time_base`."""
    time_base: Fraction
    """Seconds per tick, exact."""
    is_concealed: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    """bool [N]: whether the frame is damaged and concealed by FFmpeg."""

    def __post_init__(self) -> None:
        frames, index = self.frames, self.index
        dtype = str(frames.dtype).removeprefix("torch.")
        if frames.ndim != 4 or frames.shape[-1] != 3 or dtype not in ("uint8", "uint16"):
            raise ConfigError(
                "frames must be uint8 or uint16 [N, H, W, 3], "
                f"got {frames.dtype} {list(frames.shape)}"
            )
        if not len(frames) == len(index) == len(self.pts):
            raise ConfigError(
                f"frames, index and pts must have equal lengths, got {len(frames)}, {len(index)} "
                f"and {len(self.pts)}"
            )
        if not np.issubdtype(self.pts.dtype, np.integer):
            raise ConfigError(f"pts must be ticks, int64 [N], got {self.pts.dtype}")
        if not len(self.is_concealed):
            object.__setattr__(self, "is_concealed", np.zeros(len(index), np.bool_))

    @property
    def pts_seconds(self) -> NDArray[np.float64]:
        """float64 [N]: presentation time of each frame, rounded from the ticks."""
        return float_seconds(self.pts, self.time_base)

    def __len__(self) -> int:
        return len(self.frames)


@dataclass(frozen=True, kw_only=True, eq=False)
class Clip(_Frames):
    """Frames of one video requested together, in the requested order: N is T."""

    frame_rate: Fraction
    """Average frame rate of the video in frames per second."""
    source: str
    """Path of the video."""
    original_size: tuple[int, int]
    """(height, width) of upright frames of the video, before cropping and resizing."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FrameBatch(_Frames):
    """Frames of one video in presentation order."""

    video: int
    """Position of the video in the requested list."""
    decode_seconds: float = 0.0
    """Thread time spent decoding them in seconds; 0 if not measured."""

    @property
    def places(self) -> Self:
        """The batch without pixels: its frames are black arrays that take no memory."""
        return replace(self, frames=np.broadcast_to(np.uint8(0), tuple(self.frames.shape)))


@dataclass(frozen=True, kw_only=True)
class FrameLoss:
    """A frame, or a whole video, that is missing or concealed.

    Times are ticks, as in a FrameBatch, so that losses and results of a video can be joined
    exactly.
    """

    source: str
    """Path of the video."""
    index: int | None
    """Index of the frame in presentation order; None: the whole video."""
    pts: int | None = None
    """Presentation time in ticks of `time_base`; None for a whole video."""
    time_base: Fraction | None = None
    """Seconds per tick."""
    cause: str
    """Why it is missing or concealed."""
    is_concealed: bool = False
    """Whether the frame was delivered as FFmpeg conceals it; else it is missing."""

    @classmethod
    def at(
        cls, index: StreamIndex, number: int, cause: str, *, is_concealed: bool = False
    ) -> "FrameLoss":
        """Return the loss of frame `number` of a video."""
        return cls(
            source=str(index.source),
            index=number,
            pts=int(index.pts[number]),
            time_base=index.info.time_base,
            cause=cause,
            is_concealed=is_concealed,
        )

    @property
    def pts_seconds(self) -> float | None:
        """Presentation time in seconds; None for a whole video."""
        if self.pts is None or self.time_base is None:
            return None
        return float(self.pts * self.time_base)
