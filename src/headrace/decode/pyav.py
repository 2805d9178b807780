"""The PyAV backend: FFmpeg's decoders, one stream per decoder, one thread per decoder."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Generic, overload

from av.video.frame import VideoFrame

from headrace.decode.converter import ArrayConverter, Conversion, Converter
from headrace.decode.decode_session import DecodeSession, concealed
from headrace.decode.decoder_config import ON_CPU, DecoderConfig
from headrace.decode.demuxer import WrongPacketError
from headrace.decode.frame_outputs import Array, Out, Pixels
from headrace.decode.gop_verification import certain_span, find_out
from headrace.decode.gpu_frames import GpuFrames
from headrace.decode.index_store import keep_verdicts
from headrace.decode.protocol import DecodeCounters, DecodeJob
from headrace.errors import BackendError, DecodeError
from headrace.video.content_digest import digest_of
from headrace.video.ffmpeg_errors import at_the_door
from headrace.video.frame_format import FrameFormat
from headrace.video.random_access import RandomAccess
from headrace.video.stream_index import StreamIndex

_GOPS_BACK = (1, 3)
"""How many keyframes to go back where the stream announces entries that prove not to be clean: one
with periodic intra refresh becomes whole only one keyframe later, or two."""


class PyavDecoder(Generic[Pixels]):
    """Decodes jobs of one stream. Not thread-safe: one per thread.

    A job that follows the last one closely goes on without a seek. Frames nobody asked for and no
    other frame needs are not decoded where the index says this is exact. Frames come out equal, bit
    for bit, to those of a plain linear decode; those at which it reports damage, and those that
    lean on them, are named in a DecodeError. Where there is doubt, a plain decode of the GOPs in
    question finds out once, and what it found is kept with the index.
    """

    @overload
    def __init__(
        self: PyavDecoder[Array],
        index: StreamIndex,
        shape: FrameFormat | None = None,
        decoding: DecoderConfig = ...,
    ) -> None: ...

    @overload
    def __init__(
        self,
        index: StreamIndex,
        shape: FrameFormat | None,
        decoding: DecoderConfig,
        converter: Converter[Pixels],
    ) -> None: ...

    def __init__(
        self,
        index: StreamIndex,
        shape: FrameFormat | None = None,
        decoding: DecoderConfig = ON_CPU,
        converter: Converter[Pixels] | None = None,
    ) -> None:
        """Open nothing yet; `converter` makes the pixels, arrays unless it is given."""
        self.index = index
        """The frames there are."""
        self.shape = shape or FrameFormat()
        """What each frame is made into."""
        self.counters = DecodeCounters()
        """What decoding cost so far."""
        self._gpu = None if decoding.gpu is None else GpuFrames(decoding, index, self.counters)
        upright = index.info.orientation
        made: Any = converter or ArrayConverter(self.shape, upright, str(index.source))
        self._converter: Converter[Pixels] = made
        self._passage = DecodeSession(index, self.counters, self._gpu)
        self._depth = 0
        """GOPs before its own at which decoding a frame last had to begin."""
        self._concealed: set[int] = set()

    @property
    def brought_down_bytes(self) -> int:
        """Bytes of the frames that came down from a GPU so far; 0 where the CPU decodes."""
        return self.counters.brought_down_bytes

    @property
    def concealed(self) -> frozenset[int]:
        """Indices of those frames of the last job that are damaged and were delivered anyway."""
        return frozenset(self._concealed)

    def run(self, job: DecodeJob, out: Out[Pixels] | None = None) -> Iterator[tuple[int, Pixels]]:
        """Yield (index, frame) for every wanted frame: see `Decoder.run`."""
        try:
            with at_the_door(DecodeError, self.index.source, "decode"):
                yield from self._run(job, out)
        except BackendError:
            # Of a GPU. The next job begins anew, not in the middle of what was refused.
            self._passage.fail()
            raise

    def _run(self, job: DecodeJob, out: Out[Pixels] | None) -> Iterator[tuple[int, Pixels]]:
        self.index.check(job.wanted[0])
        self.index.check(job.wanted[-1])
        self.index.check_unchanged(job.wanted[0])
        self._concealed.clear()
        lost: list[int] = []
        conversion: Conversion[Pixels] = Conversion(self._converter, job.wanted, out)
        for number, pixels in self._found(job, conversion, lost):
            self.counters.frames_delivered += 1
            yield number, pixels
        if lost and self._gpu is not None and self._is_fine_on_the_cpu(lost[0]):
            raise self._gpu.failed(lost[0])
        if lost and job.conceals:
            for number, frame in concealed(self.index, lost, self.counters):
                if (shown := conversion.pixels(number, frame)) is not None:
                    self.counters.frames_delivered += 1
                    self._concealed.add(number)
                    yield number, shown
            lost = [number for number in lost if number not in self._concealed]
        missing = sorted({*lost, *conversion.refused})
        if missing:
            first = next(iter(conversion.refused.values()), None)
            raise _naming(first or self._undecodable(missing), missing)

    def rest(self) -> None:
        """Release the memory of the codec; the file stays open, and the next job seeks."""
        self._passage.rest()

    def close(self) -> None:
        """Release the file and the codec."""
        self._passage.close()

    def _found(
        self, job: DecodeJob, conversion: Conversion[Pixels], lost: list[int]
    ) -> Iterator[tuple[int, Pixels]]:
        """Yield the wanted frames in order; add those that are damaged to `lost`.

        Each is converted when it comes, while the processor still has it at hand, and delivered
        when it is settled.
        """
        left = deque(job.wanted)
        passage, verdicts = self._passage, self.index.verdicts
        while left:
            number = left[0]
            if verdicts.is_damaged(number):
                lost.append(left.popleft())
                continue
            for gop, skips in self._ways(number):
                wanted = [each for each in left if not verdicts.is_damaged(each)]
                if number not in wanted[:1]:
                    break  # Another thread has found out meanwhile that it is damaged.
                due = iter(wanted)
                came: deque[tuple[int, Pixels | None]] = deque()
                for found, frame in self._by(gop, wanted, job, skips=skips):
                    if found != next(due) or not self._is_right(found, frame):
                        # Another way brings this one, or the one that is lost before it.
                        passage.lose()
                        passage.is_broken = True
                        break
                    came.append((found, conversion.pixels(found, frame)))
                    while came and passage.is_settled(came[0][0]):
                        yield from self._confirmed(left, came, lost)
                if not passage.is_broken:
                    while came:
                        yield from self._confirmed(left, came, lost)
                if not left or left[0] != number:
                    self._depth = max(0, self.index.gop_of(number) - gop)
                    break
                passage.lose()
            else:
                lost.append(left.popleft())

    def _confirmed(
        self,
        left: deque[int],
        came: deque[tuple[int, Pixels | None]],
        lost: list[int],
    ) -> Iterator[tuple[int, Pixels]]:
        """Yield the first frame that came; those wanted before it are damaged."""
        number, pixels = came.popleft()
        while left[0] != number:
            lost.append(left.popleft())
        left.popleft()
        if pixels is not None:
            yield number, pixels

    def _by(
        self, gop: int, wanted: list[int], job: DecodeJob, *, skips: bool
    ) -> Iterator[tuple[int, VideoFrame]]:
        """Yield what decoding from a GOP on gives of `wanted`."""
        stretch = self._passage.stretch(
            gop, wanted, skips=skips, goes_on=job.goes_on, following=job.following
        )
        try:
            for number, frame in stretch:
                yield number, frame if self._gpu is None else self._gpu.delivered(frame)
        except WrongPacketError:
            # The feed reads in order from now on; what came before is decoded again.
            self._passage.lose()
            self._passage.is_broken = True

    def _ways(self, number: int) -> Iterator[tuple[int, bool]]:
        """Yield (GOP to enter at, whether to skip droppable frames), the cheapest first.

        Each is tried when those before did not bring the frame.
        """
        index, gop = self.index, self.index.gop_of(number)
        entry = self._back(gop, self._depth)
        if not index.verdicts.knows(number) and index.gop_trust[entry] != RandomAccess.DOUBTFUL:
            if index.can_skip:
                yield entry, True
            yield entry, False
            for depth in _GOPS_BACK:
                if self._back(gop, depth) < entry:
                    entry = self._back(gop, depth)
                    yield entry, False
        self._find_out(number)
        first, _ = certain_span(index, gop)
        depth, entry = self._depth, gop + 1
        while entry > 0 and not index.verdicts.is_damaged(number):
            # Its picture is known: further back, until it is that one; in the end from the start.
            entry = max(0 if entry <= first else first, gop - depth)
            yield entry, False
            while self._passage.doubted is not None:
                self._find_out(self._passage.doubted)  # in a later GOP: the same way again
                yield entry, False
            depth = 2 * depth + 1

    def _find_out(self, number: int) -> None:
        """See to it that frame `number` is known, and those that are found out with it are kept."""
        if not self.index.verdicts.knows(number):
            find_out(self.index, number)
            keep_verdicts(self.index)

    def _back(self, gop: int, depth: int) -> int:
        """Return the GOP `depth` before another, or the first certain entry on the way there."""
        first, _ = certain_span(self.index, gop)
        return max(first, gop - depth)

    def _is_right(self, number: int, frame: VideoFrame) -> bool:
        """Return whether a picture is that of the plain decode, as far as one is known."""
        verdicts = self.index.verdicts
        if not verdicts.knows(number):
            return True
        picture = frame if self._gpu is None else self._gpu.planar(frame)
        return not verdicts.differs(number, digest_of(picture))

    def _is_fine_on_the_cpu(self, number: int) -> bool:
        with closing(PyavDecoder(self.index, self.shape)) as other:
            try:
                return any(other.run(DecodeJob((number,), goes_on=False)))
            except DecodeError:
                return False

    def _undecodable(self, missing: list[int]) -> DecodeError:
        index = self.index
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
