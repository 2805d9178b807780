"""Finding out, once, what a plain decode gives: from a certain entry to the next, or of all."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator

from av.video.frame import VideoFrame

from headrace.decode.demuxer import Demuxer, WrongPacketError
from headrace.decode.protocol import DecodeCounters
from headrace.video.codec import DecodedFrame, FfmpegCodec, VideoPacket, prepare
from headrace.video.content_digest import digest_of
from headrace.video.frame_status import ReferenceResult, undamaged
from headrace.video.h264_error_reset import RestartParameters, plain_codec, spoiling
from headrace.video.random_access import RandomAccess
from headrace.video.reference_decode import ENDS_EARLY, HELD_FRAMES, is_unreferenced, plain_decode
from headrace.video.stream_index import StreamIndex


def find_out(index: StreamIndex, number: int) -> None:
    """Decode the GOPs around frame `number` plainly, and note in `index.verdicts` what came out.

    They are those from the nearest certain entry on, up to the next one. Where frames are missing
    there and nothing is reported, all from the start of the stream.
    Cost: decodes those GOPs once; the whole stream where only its start is certain.

    Raises:
        OpenError, ScanError: the file cannot be read any more.
    """
    begin, end = certain_span(index, index.gop_of(number))
    feed = Demuxer(index, DecodeCounters())
    try:
        seen = _witness(feed, index, begin, end)
        if begin > 0 and not seen.reported and len(seen.digests) < len(_frames(index, begin, end)):
            begin = 0
            seen = _witness(feed, index, begin, end)
    finally:
        feed.close()
    frames = _frames(index, begin, end)
    good = undamaged(index, seen, frames.start, frames.stop)
    index.verdicts.note(frames.start, frames.stop, good)


def look_through(
    index: StreamIndex, frames: range, wanted: int, counters: DecodeCounters
) -> VideoFrame | None:
    """Return frame `wanted` by a plain decode of `frames`; None where that finds a fault in them.

    For backends that tell of none.
    Cost: opens the file and decodes the frames; added to `counters`.

    Args:
        index: The frames there are.
        frames: Those from the first of a GOP on, up to the last of it at most.
        wanted: One of them.
        counters: What it costs is added here.

    Raises:
        OpenError, ScanError: the file cannot be read any more.
    """
    gop = index.gop_of(frames.start)
    is_whole = frames.stop == index.gop_range(gop)[1]
    stop = _stop(index, gop + 1 if is_whole else gop, frames)
    feed = Demuxer(index, counters)
    reported: set[int] = set()
    came: set[int] = set()
    picture: VideoFrame | None = None
    try:
        for _, shown in _plain(feed, index, gop, stop, reported):
            counters.frames_decoded += 1
            came.add(number := index.number_of(shown.ordinal))
            if number == wanted:
                picture = shown.frame
    except WrongPacketError:
        return None
    finally:
        feed.close()
    # Frames shown before the keyframe lean on the GOP before, and are no part of this one.
    faults = [bad for bad in reported if not 0 <= index.number_of(bad) < frames.start]
    if faults or not came.issuperset(frames):
        return None
    return picture


def certain_span(index: StreamIndex, gop: int) -> tuple[int, int]:
    """Return [first, end) of the GOPs between the certain entries around a GOP."""
    first = gop
    while index.gop_trust[first] != RandomAccess.CERTAIN:
        first -= 1
    end = gop + 1
    while end < index.num_gops and index.gop_trust[end] != RandomAccess.CERTAIN:
        end += 1
    return first, end


def plain_frames_from(
    index: StreamIndex, gop: int, counters: DecodeCounters
) -> Iterator[tuple[int, VideoFrame]]:
    """Yield (index, frame) of all that a plain decode gives from a GOP on, to the end.

    Where the container gives other packets after the seek, it begins again in order, and what has
    been given is not given again.
    """
    feed = Demuxer(index, counters)
    given: set[int] = set()
    is_whole = False
    try:
        while not is_whole:
            try:
                for _, shown in _plain(feed, index, gop, index.packets, set()):
                    counters.frames_decoded += 1
                    number = index.number_of(shown.ordinal)
                    if number >= index.gop_start[gop] and number not in given:
                        given.add(number)
                        yield number, shown.frame
                is_whole = True
            except WrongPacketError:
                pass  # The feed reads in order from now on.
    finally:
        feed.close()


def _frames(index: StreamIndex, begin: int, end: int) -> range:
    return range(index.gop_range(begin)[0], index.gop_range(end - 1)[1])


def _stop(index: StreamIndex, end: int, frames: range) -> int:
    """Return the ordinal behind the last packet of `frames`, and of the GOPs before `end`."""
    packets = index.packets if end == index.num_gops else int(index.gop_ordinal[end])
    return max(packets, int(index.ordinal[frames.start : frames.stop].max()) + 1)


def _witness(feed: Demuxer, index: StreamIndex, begin: int, end: int) -> ReferenceResult:
    frames = _frames(index, begin, end)
    packets = _stop(index, end, frames)
    seen = ReferenceResult({}, set(), set())
    try:
        _see(feed, index, begin, packets, frames, seen)
        left_out: frozenset[int] = frozenset()
        while spoilt := _spoiling(index, seen.reported) - left_out:
            left_out |= spoilt
            _see(feed, index, begin, packets, frames, seen, left_out)
        if index.info.codec in ENDS_EARLY:
            held: deque[DecodedFrame] = deque(maxlen=HELD_FRAMES)
            for _, shown in _plain(feed, index, begin, packets, set()):
                held.append(shown)
                number = index.number_of(shown.ordinal)
                if number in seen.digests and digest_of(shown.frame) != seen.digests[number]:
                    seen.reported.add(shown.ordinal)
    except WrongPacketError:
        return _witness(feed, index, 0, end)  # it reads in order now
    return seen


def _see(
    feed: Demuxer,
    index: StreamIndex,
    begin: int,
    packets: int,
    frames: range,
    seen: ReferenceResult,
    left_out: Collection[int] = (),
) -> None:
    """Note in `seen` what comes out of all packets from a GOP on but those left out."""
    digests: dict[int, int] = {}
    for codec, shown in _plain(feed, index, begin, packets, seen.reported, left_out):
        number = index.number_of(shown.ordinal)
        if number in frames and number not in digests:
            digests[number] = digest_of(shown.frame)
            if is_unreferenced(codec, shown):
                seen.unreferenced.add(number)
    seen.digests.update(digests)


def _spoiling(index: StreamIndex, reported: Collection[int]) -> frozenset[int]:
    def is_droppable(ordinal: int) -> bool:
        number = index.number_of(ordinal)
        return number >= 0 and bool(index.is_droppable[number])

    return spoiling(index.info.codec, reported, is_droppable)


def _plain(
    feed: Demuxer,
    index: StreamIndex,
    gop: int,
    stop: int,
    reported: set[int],
    left_out: Collection[int] = (),
) -> Iterator[tuple[FfmpegCodec, DecodedFrame]]:
    """Decode plainly from a GOP up to the packet before ordinal `stop`, and close the feed."""
    feed.go_to(gop)
    doubled = index.doubled.tolist() if gop == 0 else ()
    told = RestartParameters(feed.stream, feed.first, index.told_before_packet)
    codec = plain_codec(prepare(feed.stream.codec_context), doubled, told)
    if index.gop_ordinal[gop] > 0:
        codec.prime(feed.first, index.told_before(gop))
    for shown in plain_decode(codec, _packets(feed, stop, left_out), reported):
        yield codec, shown
    feed.close()


def _packets(
    feed: Demuxer, stop: int, left_out: Collection[int]
) -> Iterator[tuple[int, VideoPacket | None]]:
    """Yield the packets before ordinal `stop`, then None: the codec is to be drained."""
    while feed.next_ordinal is not None and feed.next_ordinal < stop:
        ordinal = feed.next_ordinal
        packet = feed.read()
        if packet is None:
            break
        if ordinal not in left_out:
            yield ordinal, packet
    yield stop - 1, None
