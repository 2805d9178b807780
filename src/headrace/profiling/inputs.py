"""What went into a session: the videos as they were found, what decoding cost, what was lost."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Final, Literal

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from headrace.profiling.provenance import Record, Text
from headrace.video.content import content_digest


class GopLengths(Record):
    """Frames from one keyframe up to the next."""

    minimum: PositiveInt
    mean: NonNegativeFloat
    maximum: PositiveInt


class SourceSummary(Record):
    """The video as it was found; of one that could not be opened, only its path and content."""

    path: Text
    codec: str
    height: NonNegativeInt
    """Of the coded picture, before rotation; 0 of a video that could not be opened."""
    width: NonNegativeInt
    frame_rate: Fraction
    """Average, frames per second."""
    frames: NonNegativeInt
    duration_seconds: NonNegativeFloat
    gop: GopLengths | None
    """None when no packet was looked at."""
    has_b_frames: bool
    is_vfr: bool
    """The time between frames varies."""
    rotation: Literal[0, 90, 180, 270]
    """Degrees clockwise from the coded to the upright picture."""
    counted_by: Literal["packets", "decode"]
    """How `frames` was found: from the packets alone, or by decoding everything."""
    content: Text | None = None
    """What is in the file: the same for two files that hold the same; see `content_digest`. None
    where it could not be read, and in records made before headrace kept it."""

    @property
    def is_open(self) -> bool:
        """Whether it could be opened."""
        return self.height > 0


def with_content(videos: Sequence[SourceSummary]) -> tuple[SourceSummary, ...]:
    """Return the videos with the digest of each: reads them, so do it after a run."""
    ids = {path: content_digest(Path(path)) for path in {video.path for video in videos}}
    return tuple(video.model_copy(update={"content": ids[video.path]}) for video in videos)


class DecodeCounters(Record):
    """What the decoder was made to do."""

    packets_read: NonNegativeInt
    bytes_read: NonNegativeInt
    """Of video packets."""
    frames_decoded: NonNegativeInt
    """Frames the decoder produced, thrown away or not."""
    frames_delivered: NonNegativeInt
    """Frames somebody asked for."""
    seeks: NonNegativeInt
    opens: NonNegativeInt
    brought_down_bytes: NonNegativeInt = 0
    """Bytes of frames that came down from a GPU that decoded them."""


NOT_COUNTED: Final = DecodeCounters(
    packets_read=0, bytes_read=0, frames_decoded=0, frames_delivered=0, seeks=0, opens=0
)
"""Of what is not read as a file."""


class LostFrame(Record):
    """A frame that was asked for and is damaged, or a whole video: left out, or shown anyway."""

    input: NonNegativeInt = 0
    """Which of the session's inputs, where there are inputs; else which of the pictures."""
    index: NonNegativeInt | None
    """None: the whole video."""
    pts_seconds: float | None
    """None when the stream does not tell."""
    cause: Text
    is_concealed: bool = False
    """Whether it was shown as FFmpeg shows it."""
