"""Loss: media that did not come, or came only as a guess, and why."""

from dataclasses import dataclass
from fractions import Fraction

from headrace.video.stream_index import StreamIndex


@dataclass(frozen=True, kw_only=True)
class FrameLoss:
    """A frame, or a whole video, that did not come as it was encoded.

    Time is kept in ticks, as in a FrameBatch, so that losses and results of one video join exactly.
    """

    source: str
    """Path of the video."""
    index: int | None
    """Place of the frame in presentation order; None: all of the video."""
    pts: int | None = None
    """When the frame is shown, in ticks of `time_base`; None where it is all of the video."""
    time_base: Fraction | None = None
    """Seconds per tick."""
    cause: str
    """What is wrong, in words."""
    is_concealed: bool = False
    """Whether the frame was delivered all the same, as FFmpeg shows it; else it was left out."""

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
        """When the frame is shown, in seconds; None where it is all of the video."""
        if self.pts is None or self.time_base is None:
            return None
        return float(self.pts * self.time_base)
