"""FFmpeg codec of one stream: packets go in, and frames come out with their packet's index.

`packet_index` is a packet's 0-based position in decoding order. FFmpeg passes a packet's opaque
value on to its frame, so frames are identified even where timestamps are missing, duplicated or
invented.

No option is set that changes a frame: damage is what a reference decode reports, by an error or a
flag on a frame; for JPEG also what FFmpeg only logs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple, Protocol, TypeAlias, cast

import av
from av.codec.hwaccel import HWAccel
from av.container import InputContainer
from av.packet import Packet
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from headrace.errors import ScanError
from headrace.video import nal
from headrace.video.container import MAX_PIXELS
from headrace.video.ffmpeg_errors import translate_errors
from headrace.video.pyav_version import reorder_depth, set_reorder_depth
from headrace.video.random_access import RandomAccess, classify_keyframe

VideoPacket: TypeAlias = "Packet[VideoStream]"

REOPENABLE_CODECS = frozenset(
    ["h264", "hevc", "av1", "vp8", "vp9", "mpeg1video", "mpeg2video", "mpeg4"]
)
"""Codecs that can be opened again for a stream: `_STREAM_FACTS` and the headers of the first packet
are all they need."""

_STREAM_FACTS = (
    *("extradata", "codec_tag", "width", "height", "pix_fmt", "profile", "level"),
    *("bits_per_coded_sample", "color_range", "color_primaries", "color_trc", "colorspace"),
)


class DecodedFrame(NamedTuple):
    """An output frame with its packet index."""

    packet_index: int
    """Index of the frame's packet."""
    frame: VideoFrame


class PacketResult(NamedTuple):
    """Output of one packet."""

    shown: list[DecodedFrame]
    reported: list[int]
    """Indices of packets with damage reported by FFmpeg: refused, or their frame is flagged."""


class Codec(Protocol):
    """Decodes packets in order, and returns frames with their packet index. Not thread-safe."""

    @property
    def reorder_depth(self) -> int:
        """Frames held back for reordering, as far as known."""
        ...

    def enable_error_detection(self) -> None:
        """Report all damage that a reference decode may report; call before the first packet."""
        ...

    def send_parameter_sets(self, first: VideoPacket | None, in_force: bytes = b"") -> None:
        """Send the headers in force before the next packet, where the codec needs them.

        Args:
            first: The first packet of the stream.
            in_force: Parameter sets in force, in packet format.
        """
        ...

    def decode(self, packet_index: int, packet: VideoPacket | None) -> PacketResult:
        """Decode one packet, or drain the codec with None.

        Args:
            packet_index: Index of the packet; of the last packet when draining.
            packet: The packet, or None.
        """
        ...

    def flush(self) -> None:
        """Drop pending packets: the next packet is a random access point."""
        ...


class FfmpegCodec:
    """FFmpeg's codec: a `Codec`. Not thread-safe."""

    def __init__(self, context: VideoCodecContext, doubled: Iterable[int] = ()) -> None:
        """Take over a prepared context.

        Args:
            context: FFmpeg's codec context.
            doubled: Indices of packets that output two frames, such as the first of a stream for
                which FFmpeg invents a reference frame. The first of the two gets the index of the
                packet before, which outputs none.
        """
        self.context = context
        self._has_delay = bool(context.codec.delay)
        self._doubled = set(doubled)

    @property
    def reorder_depth(self) -> int:
        """See `Codec.reorder_depth`."""
        return reorder_depth(self.context)

    def enable_error_detection(self) -> None:
        """See `Codec.enable_error_detection`.

        FFmpeg detects encoder bugs in MPEG-4 from frames decoded so far, and then takes damage for
        such bugs, so the result depends on the start. Frames without a report are equal.
        """
        if self.context.name == "mpeg4":
            self.context.options = {**self.context.options, "err_detect": "buffer"}

    def flush(self) -> None:
        """See `Codec.flush`."""
        self.context.flush_buffers()

    def is_random_access(self, packet: VideoPacket) -> bool:
        """Return whether nothing after a packet refers to what is before it, by the standard."""
        name = self.context.codec.canonical_name
        prefix = nal.length_size(name, self.context.extradata)
        access = classify_keyframe(name, memoryview(packet), prefix, is_intra_only=False)
        return access is RandomAccess.GUARANTEED

    def send_parameter_sets(self, first: VideoPacket | None, in_force: bytes = b"") -> None:
        """Send the stream's one-time headers to a codec that starts within it.

        H.264 and MPEG-4 name the encoder at the start, and FFmpeg works around bugs of old ones.
        Parameter sets may change within the stream: see `Codec.send_parameter_sets`.
        """
        if first is None:
            return
        context = self.context
        name = context.codec.canonical_name
        said = nal.preamble(name, memoryview(first), nal.length_size(name, context.extradata))
        if (said is None and name in REOPENABLE_CODECS) or said == in_force == b"":
            return
        packet = first if said is None else cast(VideoPacket, Packet(said + in_force))
        with suppress(av.error.FFmpegError, ValueError):  # "no frame": there is none in it
            context.decode(packet)
        context.flush_buffers()

    def decode(self, packet_index: int, packet: VideoPacket | None) -> PacketResult:
        """Decode one packet, or drain the codec with None: see `Codec.decode`."""
        if packet is not None:
            mark(packet, packet_index)
        try:
            frames = self.context.decode(packet)
        except (av.error.FFmpegError, ValueError):
            return PacketResult([], [packet_index])
        # A codec without delay outputs the packet's own frame, even from its cache.
        is_own = packet is not None and not self._has_delay
        result = PacketResult([], [])
        for frame in frames:
            place = packet_index if is_own else packet_index_of(frame, packet_index)
            if place in self._doubled:
                self._doubled.discard(place)
                place -= 1
            result.shown.append(DecodedFrame(place, frame))
            if frame.is_corrupt:
                result.reported.append(place)
        return result


def prepare(context: VideoCodecContext) -> VideoCodecContext:
    """Set up a context for the calling thread, with opaque values on frames.

    A frame that is larger than `MAX_PIXELS` by its own header is refused before it takes memory.
    """
    context.thread_count = 1
    context.copy_opaque = True
    options = {**context.options, "max_pixels": str(MAX_PIXELS)}
    # By default MJPEG only logs damage, and leaves old memory in the rest of the frame.
    context.options = options | ({"err_detect": "explode"} if context.name == "mjpeg" else {})
    return context


def new_codec(
    stream: VideoStream, hardware: HWAccel | None = None, *, depth: int = 0
) -> VideoCodecContext:
    """Return a new codec for the stream, as after opening the file; on `hardware` if given.

    It holds back `depth` frames for reordering, or what FFmpeg found if that is more.

    It copies what FFmpeg found when it opened the file, and takes 0.03 ms; opening the file takes 5
    to 20 ms.
    """
    known = stream.codec_context
    codec = av.CodecContext.create(known.name, "r", hardware)
    assert isinstance(codec, VideoCodecContext)
    for name in _STREAM_FACTS:
        # Hardware has a pixel format of its own.
        is_given = name == "pix_fmt" and codec.is_hwaccel
        if not is_given and (fact := getattr(known, name, None)) is not None:
            setattr(codec, name, fact)
    set_reorder_depth(codec, max(depth, reorder_depth(known)))
    return prepare(codec)


def facts_of(stream: VideoStream) -> tuple[object, ...]:
    """Return all stream parameters that `new_codec` copies."""
    known = stream.codec_context
    facts = (getattr(known, name, None) for name in _STREAM_FACTS)
    return known.name, reorder_depth(known), *facts


def mark(packet: VideoPacket, packet_index: int) -> None:
    """Set the packet's index as opaque value, which its frame carries."""
    # A new object each time: PyAV stores opaque values by identity, and small integers share it.
    packet.opaque = (packet_index,)


def packet_index_of(frame: VideoFrame, otherwise: int = -1) -> int:
    """Return the packet index of a frame; `otherwise` if it is not known."""
    opaque = frame.opaque
    return opaque[0] if isinstance(opaque, tuple) else otherwise


def packets_of(
    container: InputContainer, stream: VideoStream, source: object
) -> Iterator[VideoPacket | None]:
    """Yield the packets of `stream` that hold data, then None, which drains the decoder.

    A read error ends the stream; packets before it stay valid.

    Raises:
        ScanError: reading fails with an error that is not FFmpeg's.
    """
    with translate_errors(ScanError, source, "read the packets of"):
        try:
            for packet in container.demux(stream):
                if packet.size:
                    yield packet
        except av.error.FFmpegError:
            pass
    yield None


def frame_alone(context: VideoCodecContext, packet: VideoPacket) -> VideoFrame | None:
    """Return the frame of one packet, if it needs no other packet.

    A reordering codec would wait for more; draining decodes one frame instead of three or more,
    half the cost of a scan.
    """
    frame = first_frame(context, packet) or first_frame(context, None)
    if frame is None:
        context.flush_buffers()
    return frame


def first_frame(context: VideoCodecContext, packet: VideoPacket | None) -> VideoFrame | None:
    """Return the first frame that a packet outputs; None if there is none, or on an error."""
    try:
        frames = context.decode(packet)
    except (av.error.FFmpegError, ValueError):
        return None
    return frames[0] if frames else None
