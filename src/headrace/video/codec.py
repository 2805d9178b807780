"""FFmpeg codec of one stream: decodes packets to frames with their packet's index.

`packet_index` is a packet's 0-based position in decoding order. FFmpeg passes a packet's opaque
value on to its frame, so frames are identified even if timestamps are missing, duplicated or
invented.

No option is set that changes a frame. Damage is an error or a flag on a frame in a reference
decode; for JPEG also damage that FFmpeg only logs by default.
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
from headrace.video.container import MAX_PIXELS, translate_errors
from headrace.video.pyav_version import reorder_depth, set_reorder_depth
from headrace.video.random_access import RandomAccess, classify_keyframe

VideoPacket: TypeAlias = "Packet[VideoStream]"

REOPENABLE_CODECS = frozenset(
    ["h264", "hevc", "av1", "vp8", "vp9", "mpeg1video", "mpeg2video", "mpeg4"]
)
"""Codecs that can be opened anywhere in a stream: they need only `_STREAM_FACTS` and the headers of
the first packet."""

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
    """Indices of packets that FFmpeg reports as damaged, by an error or a flag on the frame."""


class Codec(Protocol):
    """Decodes packets in order, and returns frames with their packet index. Not thread-safe."""

    @property
    def reorder_depth(self) -> int:
        """Number of frames held back for reordering, as far as known."""
        ...

    def enable_error_detection(self) -> None:
        """Report all damage that a reference decode may report; call before the first packet."""
        ...

    def send_parameter_sets(self, first: VideoPacket | None, in_force: bytes = b"") -> None:
        """Send the headers in force before the next packet, if the codec needs them.

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
        """Use a prepared context.

        Args:
            context: FFmpeg's codec context.
            doubled: Indices of packets that output two frames, such as a first packet for which
                FFmpeg invents a reference frame. The first of the two frames gets the index of the
                packet before, which outputs no frame.
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

        For MPEG-4, FFmpeg detects encoder bugs from the frames decoded so far, and may then mistake
        damage for a bug, so the reports depend on the start. Frames without a report are equal.
        """
        if self.context.name == "mpeg4":
            self.context.options = {**self.context.options, "err_detect": "buffer"}

    def flush(self) -> None:
        """See `Codec.flush`."""
        self.context.flush_buffers()

    def is_random_access(self, packet: VideoPacket) -> bool:
        """Return whether a packet is a guaranteed random access point: see `RandomAccess`."""
        name = self.context.codec.canonical_name
        prefix = nal.length_size(name, self.context.extradata)
        access = classify_keyframe(name, memoryview(packet), prefix, is_intra_only=False)
        return access is RandomAccess.GUARANTEED

    def send_parameter_sets(self, first: VideoPacket | None, in_force: bytes = b"") -> None:
        """Send the stream's one-time headers to a codec that starts within it.

        H.264 and MPEG-4 streams name their encoder at the start, and FFmpeg works around bugs of
        old encoders. Parameter sets may change within the stream: see `Codec.send_parameter_sets`.
        """
        if first is None:
            return
        context = self.context
        name = context.codec.canonical_name
        preamble = nal.preamble(name, memoryview(first), nal.length_size(name, context.extradata))
        if (preamble is None and name in REOPENABLE_CODECS) or preamble == in_force == b"":
            return
        packet = first if preamble is None else cast(VideoPacket, Packet(preamble + in_force))
        with suppress(av.error.FFmpegError, ValueError):  # the packet has no frame
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
            index = packet_index if is_own else packet_index_of(frame, packet_index)
            if index in self._doubled:
                self._doubled.discard(index)
                index -= 1
            result.shown.append(DecodedFrame(index, frame))
            if frame.is_corrupt:
                result.reported.append(index)
        return result


def prepare(context: VideoCodecContext) -> VideoCodecContext:
    """Set up a context for one thread, with opaque values on frames.

    FFmpeg refuses a frame above `MAX_PIXELS` before it allocates memory.
    """
    context.thread_count = 1
    context.copy_opaque = True
    options = {**context.options, "max_pixels": str(MAX_PIXELS)}
    # By default MJPEG only logs damage, and leaves old memory in the damaged part.
    context.options = options | ({"err_detect": "explode"} if context.name == "mjpeg" else {})
    return context


def new_codec(
    stream: VideoStream, hardware: HWAccel | None = None, *, depth: int = 0
) -> VideoCodecContext:
    """Return a new codec for the stream, as after opening the file; on `hardware` if given.

    It holds back `depth` frames for reordering, or more if FFmpeg found more. Stream parameters are
    copied from the open file, in 0.03 ms; opening the file again would take 5 to 20 ms.
    """
    known = stream.codec_context
    codec = av.CodecContext.create(known.name, "r", hardware)
    assert isinstance(codec, VideoCodecContext)
    for name in _STREAM_FACTS:
        is_set_by_hardware = name == "pix_fmt" and codec.is_hwaccel
        if not is_set_by_hardware and (fact := getattr(known, name, None)) is not None:
            setattr(codec, name, fact)
    set_reorder_depth(codec, max(depth, reorder_depth(known)))
    return prepare(codec)


def facts_of(stream: VideoStream) -> tuple[object, ...]:
    """Return all stream parameters that `new_codec` copies."""
    known = stream.codec_context
    facts = (getattr(known, name, None) for name in _STREAM_FACTS)
    return known.name, reorder_depth(known), *facts


def mark(packet: VideoPacket, packet_index: int) -> None:
    """Set the packet's index as its opaque value, which FFmpeg copies to its frame."""
    # PyAV stores opaque values by identity, which small integers share; a tuple is a new object.
    packet.opaque = (packet_index,)


def packet_index_of(frame: VideoFrame, otherwise: int = -1) -> int:
    """Return the packet index of a frame; `otherwise` if it is not known."""
    opaque = frame.opaque
    return opaque[0] if isinstance(opaque, tuple) else otherwise


def packets_of(
    container: InputContainer, stream: VideoStream, source: object
) -> Iterator[VideoPacket | None]:
    """Yield the packets of `stream` with data, then None, which drains the decoder.

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

    A reordering codec would wait for more packets. Draining decodes one frame in place of three or
    more, which halves the cost of a scan.
    """
    frame = first_frame(context, packet) or first_frame(context, None)
    if frame is None:
        context.flush_buffers()
    return frame


def first_frame(context: VideoCodecContext, packet: VideoPacket | None) -> VideoFrame | None:
    """Return the first frame that a packet outputs; None without output, or on an error."""
    try:
        frames = context.decode(packet)
    except (av.error.FFmpegError, ValueError):
        return None
    return frames[0] if frames else None
