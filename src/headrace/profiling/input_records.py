"""Input records of a session: videos, live sources, events, decode counters, lost frames."""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Final, Literal

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from headrace.profiling.provenance import Record, Text, record_of
from headrace.video.content_digest import content_digest
from headrace.video.frames import FrameLoss
from headrace.video.stream_index import StreamIndex


class GopLengths(Record):
    """Lengths of the GOPs of a video, in frames."""

    minimum: PositiveInt
    mean: NonNegativeFloat
    maximum: PositiveInt


class SourceSummary(Record):
    """Properties of a video; only path and content if it could not be opened."""

    path: Text
    codec: str
    height: NonNegativeInt
    """Height of the coded frame, before rotation; 0 if the video could not be opened."""
    width: NonNegativeInt
    frame_rate: Fraction
    """Average frame rate, in frames per second."""
    frames: NonNegativeInt
    duration_seconds: NonNegativeFloat
    gop: GopLengths | None
    """None if no packet was scanned."""
    has_b_frames: bool
    is_vfr: bool
    """Whether the time between frames varies."""
    rotation: Literal[0, 90, 180, 270]
    """Degrees clockwise from the coded to the upright frame."""
    counted_by: Literal["packets", "decode"]
    """Method that counted `frames`: from the packets, or by a decode of the whole video."""
    content: Text | None = None
    """Content digest of the file; None: unreadable, or an older record."""

    @property
    def is_open(self) -> bool:
        """Whether the video could be opened."""
        return self.height > 0


def with_content(videos: Sequence[SourceSummary]) -> tuple[SourceSummary, ...]:
    """Return the videos with their content digests. Reads the files: call it after a run."""
    digests = {path: content_digest(Path(path)) for path in {video.path for video in videos}}
    return tuple(video.model_copy(update={"content": digests[video.path]}) for video in videos)


class DecodeStats(Record):
    """Counters of a decoder."""

    packets_read: NonNegativeInt
    bytes_read: NonNegativeInt
    """Bytes of the video packets read."""
    frames_decoded: NonNegativeInt
    """All frames that the decoder returned."""
    frames_delivered: NonNegativeInt
    """Requested frames among them."""
    seeks: NonNegativeInt
    opens: NonNegativeInt
    brought_down_bytes: NonNegativeInt = 0
    """Bytes of frames copied to the host from the GPU that decoded them."""


NOT_COUNTED: Final = DecodeStats(
    packets_read=0, bytes_read=0, frames_decoded=0, frames_delivered=0, seeks=0, opens=0
)
"""Counters of a source that is not a file."""


class LostFrame(Record):
    """A requested frame that is damaged (left out or concealed), or a whole lost video."""

    input: NonNegativeInt = 0
    """Index of the input in the session; index of the image in a session without inputs."""
    index: NonNegativeInt | None
    """Index of the frame; None: the whole video."""
    pts_seconds: float | None
    """Presentation time; None: unknown."""
    cause: Text
    is_concealed: bool = False
    """Whether the frame was delivered with FFmpeg's error concealment."""


class SourceRecord(Record):
    """One live source."""

    name: Text
    """Address or path, without credentials."""
    arrived: NonNegativeInt
    """Frames received, including dropped frames."""
    error: Text | None = None
    """Error that ended the source early."""
    content: Text | None = None
    """Content digest if the source is a file; see `SourceSummary.content`."""


def with_file_content(sources: Sequence[SourceRecord]) -> tuple[SourceRecord, ...]:
    """Return the sources; files get their content digests. Reads them: call it after a run."""
    files = {source.name for source in sources if _is_file(source.name)}
    digests = {name: content_digest(Path(name)) for name in files}
    return tuple(
        source.model_copy(update={"content": digests.get(source.name)}) for source in sources
    )


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):
        return False  # an address that is no valid path


class EventRecord(Record):
    """One event of a session."""

    at_seconds: NonNegativeFloat
    """Time since the start of the run."""
    source: NonNegativeInt | None
    """Index of the source in the session; None for an event of a sink, or of the whole run."""
    kind: Text
    """`joined`, `stalled`, `resumed`, `disconnected`, `reconnected`, `resized`, `timestamps`,
    `dropped`, `ended`, `failed`, `overloaded`, `recovered`, `traced`."""
    words: Text
    """Description of the event."""
    frames: NonNegativeInt = 0
    """Frames lost in the event; 0: none, or unknown."""


def lost_frame(loss: FrameLoss, input_index: int) -> LostFrame:
    """Return the record of a damaged frame of the input at `input_index`."""
    return record_of(LostFrame, loss, input=input_index)


def summarize(index: StreamIndex) -> SourceSummary:
    """Return the properties of a scanned video."""
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
    indexes: Iterable[StreamIndex], skipped: Iterable[str]
) -> tuple[tuple[SourceSummary, ...], dict[str, int]]:
    """Return the properties of all requested videos, and requested path → position in them.

    Opened videos come first. Their paths may be spelled differently from the requested paths.

    Args:
        indexes: Stream indexes of the opened videos.
        skipped: Paths of the videos without frames, opened or not.
    """
    positions: dict[str, int] = {}
    opened: list[SourceSummary] = []
    for index in indexes:
        positions.setdefault(str(index.source), len(opened))
        opened.append(summarize(index))
    unopened = [path for path in dict.fromkeys(skipped) if path not in positions]
    positions |= {path: index for index, path in enumerate(unopened, len(opened))}
    return (*opened, *map(_summarize_unopened, unopened)), positions


def _summarize_unopened(path: str) -> SourceSummary:
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
