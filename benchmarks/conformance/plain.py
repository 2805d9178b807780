"""A plain linear decode, with no part of the engine but its converter: the reference of all ways.

One thread, the decoder's own defaults, packet after packet from the first to the last. A packet
that cannot be decoded is a complaint, and reading goes on.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from math import cos, radians, sin
from pathlib import Path
from time import perf_counter
from typing import cast

import av
import numpy as np
from av.container import InputContainer
from av.packet import Packet
from av.sidedata.sidedata import SideData
from av.stream import Disposition
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from benchmarks.conformance.damage_isolation import spared_frames
from benchmarks.conformance.reference import (
    NO_PTS,
    UNKNOWN,
    Reference,
    ascending,
    digest,
    thumbnail,
)
from headrace.decode.convert import FrameConverter
from headrace.errors import DecodeError
from headrace.video.shape import FrameShape, Orientation

_NO_VIDEO_FORMATS = ("image2", "ico", "tty", "hls", "concat", "dash", "webp_anim")
"""Of FFmpeg's formats: pictures, texts that it would draw, and lists that name other files."""
_MOST_LINES = 20
_ENDS_EARLY = ("hevc", "vvc", "h261", "vp8")
"""Codecs of which FFmpeg ends a damaged picture early, without a word: what is left of it is what
lay in memory, so that there is no one picture to be right. They are decoded again, holding frames.
"""
_HELD = 24
_UNDEFINED = "another picture comes out when frames are held longer: FFmpeg left it unfinished"


class NoVideoError(Exception):
    """The file is no video for FFmpeg; the message says what it is."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the file is."""

    container: str
    codec: str
    size: tuple[int, int]
    """(height, width), as stored."""


@dataclass(eq=False)
class _Found:
    """What came out so far."""

    own: list[str] = field(default_factory=list)
    small: list[str] = field(default_factory=list)
    thumbnails: list[np.ndarray] = field(default_factory=list)
    sizes: list[tuple[int, int]] = field(default_factory=list)
    pts: list[int] = field(default_factory=list)
    ordinals: list[int] = field(default_factory=list)
    complaints: list[int] = field(default_factory=list)
    reported: set[int] = field(default_factory=set)
    """Packets of complaints that are more than a line of the log."""
    keyframes: list[int] = field(default_factory=list)
    times: dict[int, int] = field(default_factory=dict)
    """Ordinal → pts of each packet."""
    lines: dict[str, None] = field(default_factory=dict)
    is_whole: bool = True


def plain_decode(
    path: Path,
    *,
    size: tuple[int, int] = (64, 64),
    most_frames: int | None = None,
    seconds: float | None = None,
) -> tuple[Reference, Facts]:
    """Decode a file from its start, up to so many frames or seconds, and keep each picture's hash.

    FFmpeg's log is listened to meanwhile, in this thread, and given back as it was. A picture that
    FFmpeg leaves unfinished is complained of too, though it says nothing. Behind damage to H.264,
    pictures are those of `spared_frames`.

    Raises:
        NoVideoError: FFmpeg does not open it, finds no video, or it is a picture or a list.
    """
    found, orientation, facts = _decode(path, size, most_frames, seconds, held=0)
    if facts.codec in _ENDS_EARLY:
        again, _, _ = _decode(path, size, len(found.own), None, held=_HELD)
        pairs = zip(found.own, again.own, found.ordinals, strict=False)
        unlike = [ordinal for one, other, ordinal in pairs if one != other]
        found.complaints += unlike
        found.lines |= dict.fromkeys([_UNDEFINED] if unlike else [])
    if facts.codec == "h264" and found.reported:
        _spare(path, size, found)
    return _reference(found, orientation), facts


def _spare(path: Path, size: tuple[int, int], found: "_Found") -> None:
    """Put pictures in their place that what is left of damage was not added to."""
    with _open(path) as container:
        stream_index = _stream(container, path).index
    pictures, spared = _Pictures(str(path), size), _Found()
    for ordinal, frame in spared_frames(path, stream_index, found.reported):
        if ordinal > max(found.ordinals, default=-1):
            break
        pictures.keep(ordinal, frame, spared)
    place = {ordinal: at for at, ordinal in enumerate(spared.ordinals)}
    for at, ordinal in enumerate(found.ordinals):
        if ordinal in place and ordinal not in found.reported:
            found.own[at] = spared.own[place[ordinal]]
            found.small[at] = spared.small[place[ordinal]]
            found.thumbnails[at] = spared.thumbnails[place[ordinal]]


def _decode(
    path: Path, size: tuple[int, int], most_frames: int | None, seconds: float | None, *, held: int
) -> tuple["_Found", Orientation, Facts]:
    """Return what comes out while the last `held` frames are kept."""
    kept: deque[VideoFrame] = deque(maxlen=held)
    level, skips = av.logging.get_level(), av.logging.get_skip_repeated()
    av.logging.set_level(av.logging.ERROR)
    av.logging.set_skip_repeated(False)
    try:
        with av.logging.Capture() as logs, _open(path) as container:
            stream = _stream(container, path)
            facts = Facts(
                container=container.format.name,
                codec=stream.codec_context.codec.canonical_name,
                size=(stream.codec_context.height, stream.codec_context.width),
            )
            reader = _Reader(container, stream, logs)
            pictures = _Pictures(str(path), size)
            ends = None if seconds is None else perf_counter() + seconds
            for ordinal, frame in reader:
                kept.append(frame)
                pictures.keep(ordinal, frame, reader.found)
                is_late = ends is not None and perf_counter() > ends
                if is_late or len(reader.found.own) == most_frames:
                    reader.found.is_whole = False
                    break
    finally:
        av.logging.set_level(level)
        av.logging.set_skip_repeated(skips)
    return reader.found, pictures.orientation, facts


class _Reader:
    """Gives (ordinal, frame) in the order of the decoder, and notes each complaint."""

    def __init__(
        self, container: InputContainer, stream: VideoStream, logs: list[tuple[int, str, str]]
    ) -> None:
        self._container, self._stream, self._logs = container, stream, logs
        self._seen = len(logs)  # what was said while the file was opened is said again
        self.found = _Found()

    def __iter__(self) -> Iterator[tuple[int, VideoFrame]]:
        context = self._stream.codec_context
        context.thread_count = 1
        context.copy_opaque = True  # so that a frame tells its packet; decoding stays the same
        for ordinal, packet in enumerate(self._packets()):
            at = ordinal if packet else max(0, ordinal - 1)  # at the end it is of the last one
            try:
                frames = context.decode(packet)
            except av.error.FFmpegError as error:
                self._complain(at, str(error))
                self.found.reported.add(at)
                frames = []
            self._listen(at)
            for frame in frames:
                of = frame.opaque[0] if isinstance(frame.opaque, tuple) else UNKNOWN
                if frame.is_corrupt:
                    self._complain(at if of == UNKNOWN else of, "FFmpeg marks it corrupt")
                    self.found.reported.add(at if of == UNKNOWN else of)
                yield of, frame

    def _packets(self) -> Iterator["Packet[VideoStream] | None"]:
        found, ordinal = self.found, 0
        packets = self._container.demux(self._stream)
        while True:
            try:
                packet = next(packets, None)
            except av.error.FFmpegError as error:
                self._complain(ordinal, str(error))
                packet = None
            self._listen(ordinal)
            if packet is None:
                break
            if packet.size:
                packet.opaque = (ordinal,)
                if packet.is_keyframe:
                    found.keyframes.append(ordinal)
                if packet.pts is not None:
                    found.times[ordinal] = packet.pts
                yield packet
                ordinal += 1
        yield None

    def _listen(self, ordinal: int) -> None:
        for _, name, message in self._logs[self._seen :]:
            self._complain(ordinal, f"{name}: {message.strip()}")
        self._seen = len(self._logs)

    def _complain(self, ordinal: int, line: str) -> None:
        self.found.complaints.append(ordinal)
        if len(self.found.lines) < _MOST_LINES:
            self.found.lines[line] = None


class _Pictures:
    """Makes frames into upright pictures, and keeps their hashes."""

    def __init__(self, source: str, size: tuple[int, int]) -> None:
        self._source, self._size = source, size
        self._converters: list[FrameConverter] = []
        self.orientation = Orientation()

    def keep(self, ordinal: int, frame: VideoFrame, found: _Found) -> None:
        if not self._converters:
            self.orientation = _orientation(frame)
            self._converters = [
                FrameConverter(shape, self.orientation, self._source)
                for shape in (FrameShape(), FrameShape(size=self._size))
            ]
        try:
            own, small = (each.convert(frame, None) for each in self._converters)
        except DecodeError as error:
            found.complaints.append(max(0, ordinal))
            found.lines[str(error.__cause__)] = None
            height, width = self._converters[0].output_size(frame)
            own = small = np.zeros((0, width, 3), np.uint8)
            found.thumbnails.append(np.zeros((32, 32, 3), np.float16))
        else:
            height, width = own.shape[:2]
            found.thumbnails.append(thumbnail(own))
        found.own.append(digest(own))
        found.small.append(digest(small))
        found.sizes.append((height, width))
        found.pts.append(NO_PTS if frame.pts is None else frame.pts)
        found.ordinals.append(ordinal)


def _open(path: Path) -> InputContainer:
    try:
        container = av.open(str(path), metadata_errors="replace")
    except (av.error.FFmpegError, OSError, ValueError) as error:
        raise NoVideoError(f"FFmpeg does not open it: {error}") from error
    names = container.format.name.split(",")
    if any(name in _NO_VIDEO_FORMATS or name.endswith("_pipe") for name in names):
        container.close()
        raise NoVideoError(f"a picture, a text or a list of files: {container.format.name}")
    return container


def _stream(container: InputContainer, path: Path) -> VideoStream:
    videos = [s for s in container.streams.video if not s.disposition & Disposition.attached_pic]
    if not videos:
        raise NoVideoError("it has no video stream, or only cover art")
    best = container.streams.best("video")
    stream = next((s for s in videos if best is not None and s.index == best.index), videos[0])
    if stream.codec_context is None:
        raise NoVideoError("FFmpeg has no decoder for its video")
    return stream


def _orientation(frame: VideoFrame) -> Orientation:
    with suppress(ValueError):  # of side data that PyAV does not know
        for data in cast(Iterable[SideData], frame.side_data):
            if data.type.name == "DISPLAYMATRIX":
                matrix = np.frombuffer(bytes(data), np.int32)
                return Orientation.from_display_matrix(matrix.tolist())
        return Orientation()
    turn = radians(-frame.rotation)
    a, b = round(cos(turn) * 65536), round(sin(turn) * 65536)
    return Orientation.from_display_matrix([a, b, 0, -b, a, 0, 0, 0, 1 << 30])


def _reference(found: _Found, orientation: Orientation) -> Reference:
    gone = set(found.complaints) - set(found.ordinals)
    return Reference(
        own=np.array(found.own, "U32"),
        small=np.array(found.small, "U32"),
        thumbnails=np.array(found.thumbnails, np.float16).reshape(-1, 32, 32, 3),
        sizes=np.array(found.sizes, np.int64).reshape(-1, 2),
        pts=np.array(found.pts, np.int64),
        ordinals=np.array(found.ordinals, np.int64),
        complaints=ascending(found.complaints),
        keyframes=ascending(found.keyframes),
        lost_pts=ascending(found.times[n] for n in gone if n in found.times),
        lines=tuple(found.lines),
        is_whole=found.is_whole,
        orientation=orientation,
    )
