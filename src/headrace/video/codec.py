"""A decoder of one stream as FFmpeg ships it: packets go in, marked, and frames come out with it.

A frame is known by its packet: `ordinal` is the 0-based place of the packet in decoding order.
FFmpeg hands the packet's mark on to the frame that comes out of it, so this holds where
timestamps are missing, doubled or invented.

No option is set that changes a picture: damage is what a plain decode reports, by an error or by a
mark on a frame; of JPEG also what it only logs.
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
from headrace.video.ffmpeg_errors import at_the_door

VideoPacket: TypeAlias = "Packet[VideoStream]"

CODECS_MADE_ANEW = frozenset(
    ["h264", "hevc", "av1", "vp8", "vp9", "mpeg1video", "mpeg2video", "mpeg4"]
)
"""Codecs of which a second one can be made for a stream: `_STREAM_FACTS` and what the first packet
says before its picture are all they need."""

_STREAM_FACTS = (
    *("extradata", "codec_tag", "width", "height", "pix_fmt", "profile", "level"),
    *("bits_per_coded_sample", "reorder_depth"),
    *("color_range", "color_primaries", "color_trc", "colorspace"),
)


class DecodedFrame(NamedTuple):
    """A frame that came out."""

    ordinal: int
    """The packet it came out of."""
    frame: VideoFrame


class PacketResult(NamedTuple):
    """What one packet brought about."""

    shown: list[DecodedFrame]
    reported: list[int]
    """Ordinals of packets at which FFmpeg reports damage: refused, or their frame is marked."""


class Codec(Protocol):
    """What decodes packets in order and tells which packet each frame is of. Not thread-safe."""

    @property
    def reorder_depth(self) -> int:
        """Frames that it holds back to put them in order, as far as it has learnt."""
        ...

    def be_wary(self) -> None:
        """Report all damage that a plain decode may report; before the first packet."""
        ...

    def prime(self, first: VideoPacket | None, told: bytes = b"") -> None:
        """Take in what the stream said before the packet that comes next, where it needs that.

        Args:
            first: The first packet of the stream.
            told: Parameter sets that are in force since, in the format of packets.
        """
        ...

    def decode(self, ordinal: int, packet: VideoPacket | None) -> PacketResult:
        """Decode one packet, or with None what is still held back.

        Args:
            ordinal: Of the packet; of the last one where there is none.
            packet: The packet, or None.
        """
        ...

    def flush(self) -> None:
        """Forget what was sent: the next packet is one to begin at."""
        ...


class FfmpegCodec:
    """FFmpeg's codec: a `Codec`. Not thread-safe."""

    def __init__(self, context: VideoCodecContext, doubled: Iterable[int] = ()) -> None:
        """Take over a context that is prepared.

        Args:
            context: FFmpeg's codec.
            doubled: Ordinals of packets that will bring two frames, as the first picture of a
                stream does for which FFmpeg makes up a picture that it refers to. The first of the
                two is told as of the packet before, which brings none.
        """
        self.context = context
        self._has_delay = bool(context.codec.delay)
        self._doubled = set(doubled)

    @property
    def reorder_depth(self) -> int:
        """See `Codec.reorder_depth`."""
        return self.context.reorder_depth

    def be_wary(self) -> None:
        """See `Codec.be_wary`.

        FFmpeg guesses from what it decoded of MPEG-4 whether the encoder was at fault, and then
        takes damage for such faults: so it depends on where it began. What comes without a report
        is equal.
        """
        if self.context.name == "mpeg4":
            self.context.options = {"err_detect": "buffer"}

    def flush(self) -> None:
        """See `Codec.flush`."""
        self.context.flush_buffers()

    def prime(self, first: VideoPacket | None, told: bytes = b"") -> None:
        """Tell a codec that begins in the middle what the stream said once, before.

        At its start H.264 names the encoder, and FFmpeg decodes by the faults of old ones; MPEG-4
        too. And parameter sets may change on the way: see `Codec.prime`.
        """
        if first is None:
            return
        context = self.context
        name = context.codec.canonical_name
        said = nal.preamble(name, memoryview(first), nal.length_size(name, context.extradata))
        if (said is None and name in CODECS_MADE_ANEW) or said == told == b"":
            return
        packet = first if said is None else cast(VideoPacket, Packet(said + told))
        with suppress(av.error.FFmpegError, ValueError):  # "no frame": there is none in it
            context.decode(packet)
        context.flush_buffers()

    def decode(self, ordinal: int, packet: VideoPacket | None) -> PacketResult:
        """Decode one packet, or with None what the codec still holds: see `Codec.decode`."""
        if packet is not None:
            mark(packet, ordinal)
        try:
            frames = self.context.decode(packet)
        except (av.error.FFmpegError, ValueError):
            return PacketResult([], [ordinal])
        # One that holds nothing back gives the frame of the packet, also if it decoded it before.
        is_own = packet is not None and not self._has_delay
        shown = [
            DecodedFrame(self._place(ordinal if is_own else ordinal_of(each, ordinal)), each)
            for each in frames
        ]
        return PacketResult(shown, [each.ordinal for each in shown if each.frame.is_corrupt])

    def _place(self, ordinal: int) -> int:
        if ordinal not in self._doubled:
            return ordinal
        self._doubled.discard(ordinal)
        return ordinal - 1


def prepare(context: VideoCodecContext) -> VideoCodecContext:
    """Set up a decoder so that it works on the calling thread, and its frames carry marks."""
    context.thread_count = 1
    context.copy_opaque = True
    if context.name == "mjpeg":
        # Left to itself it only logs damage, and leaves old memory in the rest of the picture.
        context.options = {"err_detect": "explode"}
    return context


def new_codec(stream: VideoStream, hardware: HWAccel | None = None) -> VideoCodecContext:
    """Return a new codec for the stream, as if the file had just been opened; on `hardware`.

    It takes over what FFmpeg found out about the stream when it opened the file, and costs 0.03 ms
    where opening anew costs 5 to 20.
    """
    known = stream.codec_context
    codec = av.CodecContext.create(known.name, "r", hardware)
    assert isinstance(codec, VideoCodecContext)
    for name in _STREAM_FACTS:
        # Hardware has a pixel format of its own.
        is_given = name == "pix_fmt" and codec.is_hwaccel
        if not is_given and (fact := getattr(known, name)) is not None:
            setattr(codec, name, fact)
    return prepare(codec)


def facts_of(stream: VideoStream) -> tuple[object, ...]:
    """Return all that `new_codec` tells a codec of a stream."""
    known = stream.codec_context
    return known.name, *(getattr(known, name) for name in _STREAM_FACTS)


def mark(packet: VideoPacket, ordinal: int) -> None:
    """Write the packet's ordinal on it, for the frame that comes out of it to carry on."""
    # A new object each time: PyAV keeps marks by identity, and equal small integers share theirs.
    packet.opaque = (ordinal,)


def ordinal_of(frame: VideoFrame, otherwise: int = -1) -> int:
    """Return the ordinal of the packet a frame came out of; `otherwise` where none is known."""
    return frame.opaque[0] if isinstance(frame.opaque, tuple) else otherwise


def packets_of(
    container: InputContainer, stream: VideoStream, source: object
) -> Iterator[VideoPacket | None]:
    """Yield the packets of `stream` that hold data, then None: the decoder is to be drained.

    A read error ends the stream like its end does: what was read before it stays good.

    Raises:
        ScanError: reading fails otherwise than by FFmpeg's own errors.
    """
    with at_the_door(ScanError, source, "read the packets of"):
        try:
            for packet in container.demux(stream):
                if packet.size:
                    yield packet
        except av.error.FFmpegError:
            pass
    yield None


def frame_alone(context: VideoCodecContext, packet: VideoPacket) -> VideoFrame | None:
    """Return the frame of one packet, if it needs no other: a codec that reorders waits for them.

    So one picture is decoded in place of three or more, which is half the cost of a scan.
    """
    frame = first_frame(context, packet) or first_frame(context, None)
    if frame is None:
        context.flush_buffers()
    return frame


def first_frame(context: VideoCodecContext, packet: VideoPacket | None) -> VideoFrame | None:
    """Return the first frame that a packet brings out; None without any, or with an error."""
    try:
        frames = context.decode(packet)
    except (av.error.FFmpegError, ValueError):
        return None
    return frames[0] if frames else None
