"""The PyAV backend: FFmpeg's decoders, one stream per decoder, one thread per decoder."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import chain

import av
import numpy as np
from av.container import InputContainer
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame
from av.video.stream import VideoStream
from numpy.typing import NDArray

from headrace.decode.convert import FrameConverter
from headrace.decode.nvdec import Nvdec
from headrace.decode.position import Position
from headrace.decode.protocol import DecodeCounters, DecodeJob, Out
from headrace.errors import BackendError, DecodeError
from headrace.video.container import open_container
from headrace.video.packets import (
    CODECS_MADE_ANEW,
    NO_PTS,
    VideoPacket,
    mark,
    new_codec,
    ordinal_of,
    packets_of,
    prepare,
)
from headrace.video.shape import FrameShape
from headrace.video.stream_index import StreamIndex

_Frames = Iterator[tuple[int, NDArray[np.uint8]]]


class PyavDecoder:
    """Decodes jobs of one stream. Not thread-safe: one per thread.

    A job that follows the last one closely goes on without a seek. Frames nobody asked for and no
    other frame needs are not decoded where the index says this is exact. Frames come out equal, bit
    for bit, to those of a plain linear decode; where damage makes that uncertain they are withheld
    and named in a DecodeError.
    """

    def __init__(
        self, index: StreamIndex, shape: FrameShape | None = None, *, gpu: int | None = None
    ) -> None:
        self._index = index
        self._gpu = gpu
        self._nvdec = None if gpu is None else Nvdec(gpu, index)
        self._shape = shape or FrameShape()
        self._counters = DecodeCounters()
        self._converter = FrameConverter(self._shape, index.info.orientation, str(index.source))
        self._container: InputContainer | None = None
        self._stream: VideoStream
        self._codec: VideoCodecContext | None = None
        self._packets: Iterator[VideoPacket | None]
        self._position = Position(index)
        self._ready: deque[VideoFrame] = deque()

    @property
    def index(self) -> StreamIndex:
        """The frames there are."""
        return self._index

    @property
    def shape(self) -> FrameShape:
        """What each frame is made into."""
        return self._shape

    @property
    def counters(self) -> DecodeCounters:
        """What decoding cost so far."""
        return self._counters

    def run(self, job: DecodeJob, out: Out | None = None) -> _Frames:
        """Yield (index, frame) for every wanted frame: see `Decoder.run`."""
        try:
            yield from self._run(job, out)
        except BackendError:
            # Of a GPU. The next job begins anew, not in the middle of what was refused.
            self.rest()
            raise

    def _run(self, job: DecodeJob, out: Out | None) -> _Frames:
        self._index.check(job.wanted[0])
        self._index.check(job.wanted[-1])
        self._index.check_unchanged(job.wanted[0])
        slot = {wanted: k for k, wanted in enumerate(job.wanted)}
        missing = list(job.wanted)
        lost: list[int] = []
        refused: DecodeError | None = None
        for number, frame in self._found(job, missing, lost):
            if self._nvdec is not None:
                frame = self._nvdec.planar(frame)
            try:
                pixels = self._converter.convert(frame, None if out is None else out[slot[number]])
            except DecodeError as error:
                refused = refused or error
                lost.append(number)
                continue
            self._counters.frames_delivered += 1
            yield number, pixels
        if lost:
            if self._nvdec is not None and self._is_fine_on_the_cpu(lost[0]):
                raise self._nvdec.failed(lost[0])
            raise self._undecodable(lost) if refused is None else _naming(refused, lost)

    def rest(self) -> None:
        """Release the memory of the codec; the file stays open, and the next job seeks."""
        self._ready.clear()
        self._position.lose()
        self._codec = None
        if self._container is not None and self._index.info.codec not in CODECS_MADE_ANEW:
            self.close()

    def close(self) -> None:
        """Release the file and the codec."""
        self._ready.clear()
        self._position.lose()
        self._codec = None
        if self._container is not None:
            self._container.close()
            self._container = None

    def _found(
        self, job: DecodeJob, missing: list[int], lost: list[int]
    ) -> Iterator[tuple[int, VideoFrame]]:
        """Yield the wanted frames in order; move those that there is no way to to `lost`."""
        attempts = self._attempts()
        for gops_back, skips in attempts:
            is_last = (gops_back, skips) == attempts[-1]
            start = max(0, self._index.gop_of(missing[0]) - gops_back)
            for number, frame in self._stretch(start, missing, skips, job.goes_on):
                if number != missing[0] and not is_last:
                    # An earlier one is lost on this way: the next way brings both, in order.
                    break
                while missing[0] != number:
                    yield from self._rescued(job, missing.pop(0), lost)
                yield missing.pop(0), frame
            if not missing:
                return
            if is_last:
                while missing:
                    yield from self._rescued(job, missing.pop(0), lost)
            # Enter afresh: what is missing may be decodable from further back, or with every frame.
            self._position.lose()

    def _rescued(
        self, job: DecodeJob, number: int, lost: list[int]
    ) -> Iterator[tuple[int, VideoFrame]]:
        """Decode a frame alone that damage behind it swallowed, or add it to `lost`.

        So that a frame comes out of every job, or of none.
        """
        alone = DecodeJob((number,), goes_on=False)
        found: list[tuple[int, VideoFrame]] = []
        if job != alone and self._position.may_be_swallowed(number):
            other = PyavDecoder(self._index, self._shape, gpu=self._gpu)
            try:
                found.extend(other._found(alone, [number], []))
            finally:
                other.close()
                self._counters.count(replace(other.counters, frames_delivered=0))
        if not found:
            lost.append(number)
        yield from found

    def _is_fine_on_the_cpu(self, number: int) -> bool:
        with closing(PyavDecoder(self._index, self._shape)) as other:
            try:
                return any(other.run(DecodeJob((number,), goes_on=False)))
            except DecodeError:
                return False

    def _attempts(self) -> list[tuple[int, bool]]:
        """Return (GOPs to go back, whether to skip droppable frames), the cheapest first.

        The GOP before is tried because a stream with periodic intra refresh, or with a keyframe
        that is none, becomes whole only one keyframe later.
        """
        skipping = [(0, True)] if self._index.can_skip else []
        return [*skipping, (0, False), (1, False)]

    def _stretch(
        self, gop: int, wanted: list[int], skips: bool, goes_on: bool
    ) -> Iterator[tuple[int, VideoFrame]]:
        """Decode from the keyframe of `gop`; yield the wanted frames that are certainly right."""
        left, last = set(wanted), wanted[-1]
        end = None if goes_on else self._end_of(wanted)
        self._enter(gop, wanted)
        position = self._position
        resumed: int | None = None
        while left:
            while self._ready:
                frame = self._ready.popleft()
                number = self._number_of(frame)
                if number is None:
                    continue
                position.emitted = max(position.emitted, number)
                if number in left and not position.is_suspect(number):
                    left.discard(number)
                    yield number, frame
                elif number > last:
                    self._ready.appendleft(frame)
                    return
            if resumed is not None:
                self._go_to(resumed)
                position.resume(resumed)
            resumed = position.resumes_at()
            if resumed is not None:
                self._decode(None)  # It gives what it still holds.
                continue
            if position.next_ordinal is None:
                return
            packet = None if position.next_ordinal == end else next(self._packets, None)
            if packet is not None:
                self._counters.packets_read += 1
                self._counters.bytes_read += packet.size
                if skips and position.may_withhold(left, last):
                    position.withhold()
                    continue
            self._decode(packet)

    def _end_of(self, wanted: list[int]) -> int | None:
        """Return the ordinal of the packet that nothing wanted needs; None where none is certain.

        A frame of two packets, as of two fields, would lack its second half.
        """
        if self._index.packets != len(self._index):
            return None
        return int(self._index.ordinal[wanted].max()) + 1

    def _decode(self, packet: VideoPacket | None) -> None:
        ordinal = self._position.advance(is_end=packet is None)
        if packet is None:
            ordinal -= 1  # An error is of the last one that was sent.
        else:
            mark(packet, ordinal)
        try:
            frames = self._decoding().decode(packet)
        except av.error.FFmpegError:
            self._position.damage(ordinal)
            return
        self._counters.frames_decoded += len(frames)
        for frame in frames:
            bad = ordinal_of(frame) if frame.is_corrupt else None
            if bad is not None:
                self._position.damage(bad)
        if self._nvdec is not None:
            self._nvdec.check(ordinal, packet, frames)
        self._ready.extend(frames)

    def _number_of(self, frame: VideoFrame) -> int | None:
        """Return the index of a decoded frame; None for one that is not presented."""
        number = self._position.number(ordinal_of(frame))
        return number if number >= 0 else None

    def _enter(self, gop: int, wanted: list[int]) -> None:
        """Be where packets of `gop` are next, or are already on their way through the decoder."""
        if not self._position.reaches(gop, wanted):
            self._go_to(gop)
            self._position.enter(gop)

    def _go_to(self, gop: int) -> None:
        """Be before the keyframe of `gop`, with nothing on its way."""
        self._ready.clear()
        if self._position.is_damaged:
            self.rest()  # Damage stays in what some codecs know, also when they are flushed.
        if not self._seek(gop):
            self._reopen()
            for _ in range(int(self._index.gop_ordinal[gop])):
                next(self._packets, None)
                self._counters.packets_read += 1

    def _seek(self, gop: int) -> bool:
        """Seek to the keyframe of `gop` and stand before its packet; False when it is not found.

        The container's own seek table is not trusted: the packet must be the very one.
        """
        index = self._index
        if not index.is_seekable or (self._container is None and gop == 0):
            return False
        container = self._container or self._reopen()
        dts, pts = int(index.gop_dts[gop]), int(index.gop_pts[gop])
        for target in dict.fromkeys((pts, dts, int(index.gop_dts[max(0, gop - 1)]))):
            self._counters.seeks += 1
            try:
                container.seek(target, stream=self._stream, backward=True)
            except av.error.FFmpegError:
                continue
            self._decoding().flush_buffers()
            self._packets = packets_of(container, self._stream)
            if self._find(dts, pts):
                return True
        return False

    def _find(self, dts: int, pts: int) -> bool:
        for packet in self._packets:
            if packet is None:
                return False
            at = NO_PTS if packet.dts is None else packet.dts
            if at == dts and packet.pts == pts:
                self._packets = chain([packet], self._packets)
                return True
            if at > dts:
                return False
            self._counters.packets_read += 1
        return False

    def _reopen(self) -> InputContainer:
        if self._container is not None:
            self.close()
        self._container, self._stream = open_container(self._index.source)
        self._packets = packets_of(self._container, self._stream)
        self._counters.opens += 1
        return self._container

    def _decoding(self) -> VideoCodecContext:
        if self._codec is None:
            if self._nvdec is not None:
                self._codec = self._nvdec.codec(self._stream)
            elif self._index.info.codec in CODECS_MADE_ANEW:
                self._codec = new_codec(self._stream)
            else:
                self._codec = self._stream.codec_context
                prepare(self._codec)
        return self._codec

    def _undecodable(self, missing: list[int]) -> DecodeError:
        index = self._index
        first = missing[0]
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        return DecodeError(
            f"frame {first}{others} of {index.source} cannot be decoded "
            f"(at {index.seconds(first):.3f} s): the file is damaged there; "
            "skip such frames, or copy the file again",
            source=str(index.source),
            pts=int(index.pts[first]),
            missing=missing,
        )


def _naming(error: DecodeError, missing: list[int]) -> DecodeError:
    """Return an error that also says which frames are missing."""
    return DecodeError(str(error), source=error.source, pts=error.pts, missing=missing)
