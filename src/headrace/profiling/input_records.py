"""What went into a session: videos, live sources and events, what decoding cost, what was lost."""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Final, Literal

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from headrace.profiling.provenance import Record, Text, record_of
from headrace.video.content_digest import content_digest
from headrace.video.frame_loss import FrameLoss
from headrace.video.stream_index import StreamIndex


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


class DecodeStats(Record):
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


NOT_COUNTED: Final = DecodeStats(
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


class SourceRecord(Record):
    """One source that was read as it came."""

    name: Text
    """For a reader, without credentials."""
    arrived: NonNegativeInt
    """Frames it gave, those that were dropped included."""
    error: Text | None = None
    """Why it ended before its time."""
    content: Text | None = None
    """What is in it, where it is a file, as of a video that is read at full speed."""


def with_file_content(sources: Sequence[SourceRecord]) -> tuple[SourceRecord, ...]:
    """Return the sources, those that are files with the digest of each; after a run."""
    ids = {
        name: content_digest(Path(name)) for name in {s.name for s in sources if _is_file(s.name)}
    }
    return tuple(s.model_copy(update={"content": ids.get(s.name)}) for s in sources)


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):
        return False  # an address that no path can look like


class EventRecord(Record):
    """One thing that happened during a session."""

    at_seconds: NonNegativeFloat
    """Since the start of the run."""
    source: NonNegativeInt | None
    """Place in the session's sources; None: no source, but a sink."""
    kind: Text
    """`joined`, `stalled`, `resumed`, `disconnected`, `reconnected`, `resized`, `timestamps`,
    `dropped`, `ended`, `failed`."""
    words: Text
    """For a reader."""
    frames: NonNegativeInt = 0
    """How many frames it cost, where that is known."""


def lost_frame(loss: FrameLoss, number: int) -> LostFrame:
    """Return a frame of input `number` that was left out, or shown in spite of damage."""
    return record_of(LostFrame, loss, input=number)


def summarize(index: StreamIndex) -> SourceSummary:
    """Return what a report says of a video."""
    lengths, info = index.gop_lengths, index.info
    return SourceSummary(
        path=str(index.source),
        codec=info.codec,
        height=info.height,
        width=info.width,
        frame_rate=index.frame_rate,
        frames=len(index),
        duration_seconds=index.duration_seconds,
        gop=GopLengths(
            minimum=int(lengths.min()),
            mean=float(lengths.mean()),
            maximum=int(lengths.max()),
        ),
        has_b_frames=info.reorders,
        is_vfr=index.is_vfr,
        rotation=info.orientation.rotation_degrees,
        counted_by=index.counted_by,
    )


def summarize_all(
    indexes: Iterable[StreamIndex], left_out: Iterable[str]
) -> tuple[tuple[SourceSummary, ...], dict[str, int]]:
    """Return what a report says of the videos asked for: those that were opened, then the others.

    With it comes path of a video → its place there; a record may spell a path in another way.

    Args:
        indexes: Of those that were opened.
        left_out: Paths of videos that gave nothing, opened or not.
    """
    places: dict[str, int] = {}
    opened: list[SourceSummary] = []
    for index in indexes:
        places.setdefault(str(index.source), len(opened))
        opened.append(summarize(index))
    others = [path for path in dict.fromkeys(left_out) if path not in places]
    places |= {path: place for place, path in enumerate(others, len(opened))}
    return (*opened, *map(_unopened, others)), places


def _unopened(path: str) -> SourceSummary:
    return SourceSummary(
        path=path,
        codec="",
        height=0,
        width=0,
        frame_rate=Fraction(0),
        frames=0,
        duration_seconds=0.0,
        gop=None,
        has_b_frames=False,
        is_vfr=False,
        rotation=0,
        counted_by="packets",
    )
