"""H.264 behind damage: the pictures that a decoder gives which has not seen the damage.

Of a broken macroblock FFmpeg's decoder keeps the coefficients that it read, and adds them to the
next picture, an IDR included, without a word: a plain linear decode gives another picture there
than was encoded. So where it reported damage, the file is decoded once more, from the next IDR on
by a new decoder, and without those broken pictures that no other refers to. No part of the engine.
"""

from collections.abc import Collection, Iterator
from contextlib import ExitStack
from pathlib import Path

import av
from av.container import InputContainer
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

_START_CODE = b"\x00\x00\x01"
_IDR = 5
_SLICES = (1, _IDR)


def spared_frames(
    path: Path, stream_index: int, reported: Collection[int]
) -> Iterator[tuple[int, VideoFrame]]:
    """Yield (ordinal, frame) of all frames, in the order of decoders that were spared.

    Args:
        path: A file whose video is H.264.
        stream_index: Place of the stream in the file.
        reported: Ordinals of the packets that a plain linear decode refuses, or marks corrupt.
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
        context, is_soiled = stream.codec_context, False
        packets = (packet for packet in container.demux(stream) if packet.size)
        for ordinal, packet in enumerate(packets):
            kind, ref_idc = _slice_of(bytes(packet), length_size)
            if kind == _IDR and is_soiled:
                yield from _frames(context, None)
                context, is_soiled = opening()[1].codec_context, False
            is_broken = ordinal in reported
            is_soiled |= is_broken
            if not is_broken or ref_idc:
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
    """Return how many bytes tell the length of a NAL unit; 0: start codes part them."""
    if not extradata or len(extradata) < 5 or extradata[0] != 1:
        return 0
    return (extradata[4] & 3) + 1


def _slice_of(packet: bytes, length_size: int) -> tuple[int, int]:
    """Return type and nal_ref_idc of the first slice; (0, 1) where there is none."""
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
