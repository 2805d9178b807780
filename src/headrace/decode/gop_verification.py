"""GOP verification: reference decodes of doubtful GOPs, and of damaged frames as concealed."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing

import numpy as np
from av.video.frame import VideoFrame

from headrace.decode.demuxer import Demuxer, WrongPacketError
from headrace.decode.protocol import DecodeCounters
from headrace.video.codec import DecodedFrame, VideoPacket, prepare
from headrace.video.random_access import RandomAccess
from headrace.video.reference_codec import RestartParameters, reference_codec
from headrace.video.reference_decode import (
    ReferenceResult,
    decode_around_damage,
    decode_packets,
    first_frames,
    reference_frames,
)
from headrace.video.stream_index import StreamIndex, undamaged


def verify_gop(index: StreamIndex, frame_index: int) -> None:
    """Decode the GOPs around a frame by reference, and store each frame's status in the index.

    The GOPs run from the nearest guaranteed entry up to the next. If frames are missing there
    without reported damage, decoding repeats from the start of the stream.
    Cost: decodes these GOPs once; the whole stream if only its start is guaranteed.

    Raises:
        OpenError, ScanError: the file cannot be read any more.
    """
    begin, end = guaranteed_span(index, index.gop_of(frame_index))
    with closing(Demuxer(index, DecodeCounters())) as demuxer:
        result = _decode_span(demuxer, index, begin, end)
        frames = _frames(index, begin, end)
        packets = index.packet_index[frames.start : frames.stop].tolist()
        if begin > 0 and not result.reported and not result.frames.keys() >= set(packets):
            begin = 0
            result = _decode_span(demuxer, index, begin, end)
    frames = _frames(index, begin, end)
    good = undamaged(index, result, frames.start, frames.stop)
    index.frame_status.note(frames.start, frames.stop, good)


def decode_reference(
    index: StreamIndex, frames: range, wanted: int, counters: DecodeCounters
) -> VideoFrame | None:
    """Return frame `wanted` by a reference decode of `frames`; None if any of them is damaged.

    For backends that report no damage.
    Cost: opens the file and decodes the frames; added to `counters`.

    Args:
        index: The index of the stream.
        frames: Frames of one GOP, from its first.
        wanted: Index of one of them.
        counters: Counters to add the cost to.

    Raises:
        OpenError, ScanError: the file cannot be read any more.
    """
    gop = index.gop_of(frames.start)
    is_complete = frames.stop == index.gop_range(gop)[1]
    stop = _stop(index, gop + 1 if is_complete else gop, frames)
    reported: set[int] = set()
    decoded: set[int] = set()
    image: VideoFrame | None = None
    with closing(Demuxer(index, counters)) as demuxer:
        try:
            for shown in _decode_reference(demuxer, index, gop, stop, reported):
                counters.frames_decoded += 1
                decoded.add(frame_index := index.frame_index_of(shown.packet_index))
                if frame_index == wanted:
                    image = shown.frame
        except WrongPacketError:
            return None
    # Frames shown before the keyframe belong to the GOP before, to which they refer.
    is_damaged = any(not 0 <= index.frame_index_of(packet) < frames.start for packet in reported)
    return None if is_damaged or not decoded.issuperset(frames) else image


def guaranteed_span(index: StreamIndex, gop: int) -> tuple[int, int]:
    """Return the range [first, end) of GOPs between the guaranteed entries around a GOP."""
    entries = np.flatnonzero(index.gop_random_access == RandomAccess.GUARANTEED.value)
    following = int(np.searchsorted(entries, gop, "right"))
    end = index.num_gops if following == len(entries) else int(entries[following])
    return int(entries[following - 1]), end


def reference_frames_from(
    index: StreamIndex, gop: int, counters: DecodeCounters
) -> Iterator[tuple[int, VideoFrame]]:
    """Yield (index, frame) of all frames that a reference decode outputs from a GOP to the end.

    If the container returns other packets after the seek, decoding repeats in linear order. Each
    frame is yielded once.
    """
    yielded: set[int] = set()
    is_complete = False
    with closing(Demuxer(index, counters)) as demuxer:
        while not is_complete:
            try:
                for shown in _decode_reference(demuxer, index, gop, index.packets, set()):
                    counters.frames_decoded += 1
                    frame_index = index.frame_index_of(shown.packet_index)
                    if frame_index >= index.gop_start[gop] and frame_index not in yielded:
                        yielded.add(frame_index)
                        yield frame_index, shown.frame
                is_complete = True
            except WrongPacketError:
                pass  # The demuxer reads in order from now on.


def decode_concealed(
    index: StreamIndex, wanted: Sequence[int], counters: DecodeCounters
) -> Iterator[tuple[int, VideoFrame]]:
    """Yield (index, frame) of `wanted`, ascending: the frame a player shows at that time.

    It is the damaged frame if FFmpeg outputs it, else the frame shown before, or the first one that
    FFmpeg outputs. Nothing is yielded if FFmpeg outputs no frame.
    Decoding starts one guaranteed entry early, at frames that FFmpeg conceals with, and ends after
    the last wanted frame.
    Cost: opens the file and decodes these GOPs; added to `counters`.
    """
    begin, _ = guaranteed_span(index, index.gop_of(wanted[0]))
    if begin > 0:
        begin, _ = guaranteed_span(index, begin - 1)
    remaining = deque(wanted)
    before: VideoFrame | None = None
    for frame_index, frame in reference_frames_from(index, begin, counters):
        while remaining and remaining[0] < frame_index:
            yield remaining.popleft(), frame if before is None else before
        if remaining and remaining[0] == frame_index:
            yield remaining.popleft(), frame
        if not remaining:
            return
        before = frame
    while remaining and before is not None:
        yield remaining.popleft(), before


def _frames(index: StreamIndex, begin: int, end: int) -> range:
    return range(index.gop_range(begin)[0], index.gop_range(end - 1)[1])


def _stop(index: StreamIndex, end: int, frames: range) -> int:
    """Return the packet index after the last packet of `frames` and of the GOPs before `end`."""
    packets = index.packets if end == index.num_gops else int(index.gop_packet[end])
    return max(packets, int(index.packet_index[frames.start : frames.stop].max()) + 1)


def _decode_span(demuxer: Demuxer, index: StreamIndex, begin: int, end: int) -> ReferenceResult:
    stop = _stop(index, end, _frames(index, begin, end))

    def decode(skipped: Collection[int], held: int) -> ReferenceResult:
        reported: set[int] = set()
        shown = _decode_reference(demuxer, index, begin, stop, reported, skipped)
        frames = reference_frames(shown, index.info.codec, held=held)
        return ReferenceResult(frames=first_frames(frames), reported=reported)

    def is_disposable(packet_index: int) -> bool:
        frame_index = index.frame_index_of(packet_index)
        return frame_index >= 0 and bool(index.is_disposable[frame_index])

    try:
        return decode_around_damage(decode, index.info.codec, is_disposable)
    except WrongPacketError:
        return _decode_span(demuxer, index, 0, end)  # the demuxer reads linearly now


def _decode_reference(
    demuxer: Demuxer,
    index: StreamIndex,
    gop: int,
    stop: int,
    reported: set[int],
    skipped: Collection[int] = (),
) -> Iterator[DecodedFrame]:
    """Decode by reference from a GOP to the packet before `stop`, then close the demuxer."""
    demuxer.go_to(gop)
    doubled = index.doubled.tolist() if gop == 0 else ()
    restart = RestartParameters(demuxer.stream, demuxer.first, index.parameter_sets_before_packet)
    codec = reference_codec(prepare(demuxer.stream.codec_context), doubled, restart)
    if index.gop_packet[gop] > 0:
        codec.send_parameter_sets(demuxer.first, index.parameter_sets_before(gop))
    yield from decode_packets(codec, _packets(demuxer, stop, skipped), reported)
    demuxer.close()


def _packets(
    demuxer: Demuxer, stop: int, skipped: Collection[int]
) -> Iterator[tuple[int, VideoPacket | None]]:
    """Yield the packets before `stop`, then None, which drains the codec."""
    while demuxer.next_packet is not None and demuxer.next_packet < stop:
        packet_index = demuxer.next_packet
        packet = demuxer.read()
        if packet is None:
            break
        if packet_index not in skipped:
            yield packet_index, packet
    yield stop - 1, None
