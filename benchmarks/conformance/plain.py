"""Plain linear decode, the reference of all variants: one thread, FFmpeg's defaults, all packets.

It uses no part of headrace except its conversion to RGB. A packet that cannot be decoded is a
complaint, and decoding continues.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, suppress
from math import cos, radians, sin
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, cast

import av
import numpy as np
from av.container import InputContainer
from av.packet import Packet
from av.sidedata.sidedata import SideData
from av.stream import Disposition
from av.video.frame import VideoFrame
from av.video.stream import VideoStream
from numpy.typing import NDArray

from benchmarks.conformance.reference import NO_PTS, UNKNOWN, Reference, digest, thumbnail
from headrace.decode.converter import ArrayConverter
from headrace.errors import DecodeError
from headrace.video.frame_format import FrameFormat, Orientation

_NO_VIDEO_FORMATS = ("image2", "ico", "tty", "hls", "concat", "dash", "webp_anim")
"""FFmpeg formats that are not videos: images, rendered text, and lists of other files."""
_MAX_LINES = 20
"""Max distinct messages of FFmpeg that are kept per file."""
_ENDS_EARLY = ("hevc", "vvc", "h261", "vp8")
"""Codecs whose damaged frames FFmpeg may leave unfinished, without an error. The rest of a frame is
then old memory, so no frame is right. A second decode, which holds frames, detects this."""
_HELD = 24
"""Frames that the second decode holds."""
_NOTHING = np.zeros((32, 32, 3), np.float16)
_UNDEFINED = "FFmpeg left the frame unfinished: a second decode gave other pixels"


class NoVideoError(Exception):
    """FFmpeg finds no video in the file; the message is the reason."""


class _Picture(NamedTuple):
    own: str
    small: str
    thumbnail: NDArray[np.float16]
    size: tuple[int, int]
    pts: int
    ordinal: int
    complaint: str | None
    """Reason it could not be converted to an image."""


def plain_decode(
    path: Path,
    *,
    size: tuple[int, int] | None = None,
    most_frames: int | None = None,
    seconds: float | None = None,
) -> Reference:
    """Decode a file from its start, up to a number of frames or seconds, and hash each frame.

    With `size`, small images and thumbnails are also computed. FFmpeg's log of this thread is
    captured during the decode. A frame that FFmpeg leaves unfinished counts as a complaint, even
    without an error. After damage to H.264, frames come from `spared_frames`.

    Raises:
        NoVideoError: FFmpeg cannot open the file or finds no video, or it is an image or a list.
    """
    decoding = _Decoding(path, size)
    decoding.run(most_frames, seconds)
    if decoding.codec in _ENDS_EARLY:
        second = _Decoding(path, size)
        second.run(len(decoding.pictures), None, held=_HELD)
        for picture, other in zip(decoding.pictures, second.pictures, strict=False):
            if picture.own != other.own:
                decoding.complaints.append(picture.ordinal)
                decoding.lines[_UNDEFINED] = None
    if decoding.codec == "h264" and decoding.reported:
        decoding.spare()
    return decoding.reference()


class _Decoding:
    """One decode of a file, with all complaints and frames."""

    def __init__(self, path: Path, size: tuple[int, int] | None) -> None:
        self._path = path
        self._shapes = [FrameFormat(), *([] if size is None else [FrameFormat(size=size)])]
        self._converters: list[ArrayConverter] = []
        self._seen = 0
        self._logs: list[tuple[int, str, str]] = []
        self._stream_index = 0
        self.container = self.codec = ""
        self.size = (0, 0)
        self.orientation = Orientation()
        self.pictures: list[_Picture] = []
        self.complaints: list[int] = []
        self.reported: set[int] = set()
        """Packets with complaints other than log lines."""
        self.keyframes: list[int] = []
        self.times: dict[int, int] = {}
        """Ordinal → pts of each packet."""
        self.lines: dict[str, None] = {}
        self.is_whole = True

    def run(self, most_frames: int | None, seconds: float | None, *, held: int = 0) -> None:
        """Decode, with references to the last `held` frames."""
        recent: deque[VideoFrame] = deque(maxlen=held)
        level, skips = av.logging.get_level(), av.logging.get_skip_repeated()
        av.logging.set_level(av.logging.ERROR)
        av.logging.set_skip_repeated(False)
        try:
            with av.logging.Capture() as self._logs, _open(self._path) as container:
                stream = _stream(container)
                context = stream.codec_context
                self._stream_index = stream.index
                self.container, self.codec = container.format.name, context.codec.canonical_name
                self.size = context.height, context.width
                self._seen = len(self._logs)  # decoding repeats the messages of opening
                deadline = None if seconds is None else perf_counter() + seconds
                for ordinal, frame in self._frames(container, stream):
                    recent.append(frame)
                    picture = self._picture(ordinal, frame)
                    self.pictures.append(picture)
                    if picture.complaint is not None:
                        self._complain(max(0, ordinal), picture.complaint)
                    is_late = deadline is not None and perf_counter() > deadline
                    if is_late or len(self.pictures) == most_frames:
                        self.is_whole = False
                        break
        finally:
            av.logging.set_level(level)
            av.logging.set_skip_repeated(skips)

    def spare(self) -> None:
        """Replace frames that an earlier damaged frame affects; see `spared_frames`."""
        last = max((picture.ordinal for picture in self.pictures), default=UNKNOWN)
        spared = {}
        for ordinal, frame in spared_frames(self._path, self._stream_index, self.reported):
            if ordinal > last:
                break
            spared[ordinal] = self._picture(ordinal, frame)
        for at, picture in enumerate(self.pictures):
            if picture.ordinal in spared and picture.ordinal not in self.reported:
                own, small, shrunk, *_ = spared[picture.ordinal]
                self.pictures[at] = picture._replace(own=own, small=small, thumbnail=shrunk)

    def reference(self) -> Reference:
        """Return the reference."""
        kinds: tuple[Any, ...] = "U32", "U32", np.float16, np.int64, np.int64, np.int64
        own, small, thumbnails, sizes, pts, ordinals = (
            np.array([picture[column] for picture in self.pictures], kind)
            for column, kind in enumerate(kinds)
        )
        arrays: dict[str, Any] = {"own": own, "small": small, "pts": pts, "ordinals": ordinals}
        arrays |= {"thumbnails": thumbnails.reshape(-1, 32, 32, 3), "sizes": sizes.reshape(-1, 2)}
        lost = set(self.complaints).difference(ordinals.tolist())
        numbers = {"complaints": self.complaints, "keyframes": self.keyframes}
        numbers["lost_pts"] = [self.times[n] for n in lost if n in self.times]
        arrays |= {name: np.unique(np.array(n, np.int64)) for name, n in numbers.items()}
        names = ("is_whole", "orientation", "container", "codec", "size")
        about: dict[str, Any] = {name: getattr(self, name) for name in names}
        return Reference(lines=tuple(self.lines), **arrays, **about)

    def _frames(
        self, container: InputContainer, stream: VideoStream
    ) -> Iterator[tuple[int, VideoFrame]]:
        """Yield (ordinal, frame) in the order of the decoder."""
        context = stream.codec_context
        context.thread_count = 1
        context.copy_opaque = True  # links a frame to its packet; does not change decoding
        for ordinal, packet in enumerate(self._packets(container, stream)):
            at = ordinal if packet else max(0, ordinal - 1)  # flushing counts as the last packet
            try:
                frames = context.decode(packet)
            except av.error.FFmpegError as error:
                self._complain(at, str(error))
                self.reported.add(at)
                frames = []
            self._listen(at)
            for frame in frames:
                of = frame.opaque[0] if isinstance(frame.opaque, tuple) else UNKNOWN
                if frame.is_corrupt:
                    self._complain(at if of == UNKNOWN else of, "FFmpeg marks the frame corrupt")
                    self.reported.add(at if of == UNKNOWN else of)
                yield of, frame

    def _packets(
        self, container: InputContainer, stream: VideoStream
    ) -> Iterator["Packet[VideoStream] | None"]:
        ordinal, packets = 0, container.demux(stream)
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
                    self.keyframes.append(ordinal)
                if packet.pts is not None:
                    self.times[ordinal] = packet.pts
                yield packet
                ordinal += 1
        yield None

    def _listen(self, ordinal: int) -> None:
        for _, name, message in self._logs[self._seen :]:
            self._complain(ordinal, f"{name}: {message.strip()}")
        self._seen = len(self._logs)

    def _complain(self, ordinal: int, line: str) -> None:
        self.complaints.append(ordinal)
        if len(self.lines) < _MAX_LINES:
            self.lines[line] = None

    def _picture(self, ordinal: int, frame: VideoFrame) -> _Picture:
        """Return the hashes of the upright frame."""
        if not self._converters:
            self.orientation = _orientation(frame)
            self._converters = [
                ArrayConverter(shape, self.orientation, str(self._path)) for shape in self._shapes
            ]
        complaint = None
        try:
            own, *small = (converter.convert(frame, None) for converter in self._converters)
            height, width = own.shape[:2]
            shrunk = thumbnail(own) if small else _NOTHING
        except DecodeError as error:
            complaint = str(error.__cause__)
            height, width = self._converters[0].output_size(frame)
            own, small = np.zeros((0, width, 3), np.uint8), []
            shrunk = _NOTHING
        pts = NO_PTS if frame.pts is None else frame.pts
        hashes = digest(own), "".join(map(digest, small))
        return _Picture(*hashes, shrunk, (height, width), pts, ordinal, complaint)


def _open(path: Path) -> InputContainer:
    try:
        container = av.open(str(path), metadata_errors="replace")
    except (av.error.FFmpegError, OSError, ValueError) as error:
        raise NoVideoError(f"FFmpeg cannot open it: {error}") from error
    names = container.format.name.split(",")
    if any(name in _NO_VIDEO_FORMATS or name.endswith("_pipe") for name in names):
        container.close()
        raise NoVideoError(f"an image, a text or a list of files: {container.format.name}")
    return container


def _stream(container: InputContainer) -> VideoStream:
    videos = [s for s in container.streams.video if not s.disposition & Disposition.attached_pic]
    if not videos:
        raise NoVideoError("it has no video stream except cover art")
    best = container.streams.best("video")
    stream = next((s for s in videos if best is not None and s.index == best.index), videos[0])
    if stream.codec_context is None:
        raise NoVideoError("FFmpeg has no decoder for its codec")
    return stream


def _orientation(frame: VideoFrame) -> Orientation:
    with suppress(ValueError):  # side data unknown to PyAV
        for data in cast(Iterable[SideData], frame.side_data):
            if data.type.name == "DISPLAYMATRIX":
                matrix = np.frombuffer(bytes(data), np.int32)
                return Orientation.from_display_matrix(matrix.tolist())
        return Orientation()
    turn = radians(-frame.rotation)
    a, b = round(cos(turn) * 65536), round(sin(turn) * 65536)
    return Orientation.from_display_matrix([a, b, 0, -b, a, 0, 0, 0, 1 << 30])


_START_CODE = b"\x00\x00\x01"
_IDR = 5
_SLICES = (1, _IDR)


def spared_frames(
    path: Path, stream_index: int, reported: Collection[int]
) -> Iterator[tuple[int, VideoFrame]]:
    """Yield (ordinal, frame) of all frames, from decoders without earlier damage.

    FFmpeg's H.264 decoder keeps the coefficients of a damaged macroblock and adds them to the next
    picture, even to an IDR, so a plain linear decode returns a wrong picture. Therefore a new
    decoder starts at the next IDR after reported damage, and damaged non-reference pictures are
    skipped.

    Args:
        path: H.264 file.
        stream_index: Index of the stream in the file.
        reported: Ordinals of packets that a plain linear decode fails on or marks corrupt.
    """
    with ExitStack() as opened:

        def opening() -> tuple[InputContainer, VideoStream]:
            container = opened.enter_context(av.open(str(path), metadata_errors="replace"))
            stream = container.streams[stream_index]
            assert isinstance(stream, VideoStream)
            stream.codec_context.thread_count = 1
            stream.codec_context.copy_opaque = True
            return container, stream

        container, stream = opening()
        length_size = _length_size(stream.codec_context.extradata)
        context, is_affected = stream.codec_context, False
        packets = (packet for packet in container.demux(stream) if packet.size)
        for ordinal, packet in enumerate(packets):
            kind, ref_idc = _slice_of(bytes(packet), length_size)
            if kind == _IDR and is_affected:
                yield from _frames(context, None)
                context, is_affected = opening()[1].codec_context, False
            is_damaged = ordinal in reported
            is_affected |= is_damaged
            if not is_damaged or ref_idc:
                packet.opaque = (ordinal,)
                yield from _frames(context, packet)
        yield from _frames(context, None)


def _frames(
    context: av.VideoCodecContext, packet: "Packet[VideoStream] | None"
) -> Iterator[tuple[int, VideoFrame]]:
    try:
        frames = context.decode(packet)
    except av.error.FFmpegError:
        return
    for frame in frames:
        if isinstance(frame.opaque, tuple):
            yield frame.opaque[0], frame


def _length_size(extradata: bytes | None) -> int:
    """Return the number of bytes of a NAL unit's length field; 0: start codes."""
    if not extradata or len(extradata) < 5 or extradata[0] != 1:
        return 0
    return (extradata[4] & 3) + 1


def _slice_of(packet: bytes, length_size: int) -> tuple[int, int]:
    """Return the type and nal_ref_idc of the first slice; (0, 1) without a slice."""
    at = 0
    while at < len(packet):
        if length_size:
            start = at + length_size
            at = start + int.from_bytes(packet[at:start], "big")
        else:
            start = packet.find(_START_CODE, at) + 3
            if start < 3:
                break
            at = start
        if start < len(packet) and packet[start] & 31 in _SLICES:
            return packet[start] & 31, packet[start] >> 5 & 3
    return 0, 1
