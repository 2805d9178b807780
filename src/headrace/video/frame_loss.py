"""Frame loss: a frame or video that is missing or concealed, and why."""

from dataclasses import dataclass
from fractions import Fraction

from headrace.video.stream_index import StreamIndex


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
