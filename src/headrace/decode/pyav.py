"""PyAV backend: FFmpeg's decoders; one stream and one thread per decoder."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing

from av.video.frame import VideoFrame

from headrace.decode.converter import Converter
from headrace.decode.decode_session import DecodeSession
from headrace.decode.decoder_config import ON_CPU, DecoderConfig
from headrace.decode.frame_outputs import Array, Pixels
from headrace.decode.gop_verification import decode_concealed, guaranteed_span, verify_gop
from headrace.decode.gpu.gpu_decoding import stream_codecs
from headrace.decode.index_store import save_frame_status
from headrace.decode.protocol import DecodeJob
from headrace.decode.stream_decoder import POLICIES, Conversion, StreamDecoder, undecodable
from headrace.errors import DecodeError
from headrace.video.content_digest import digest_of
from headrace.video.frame_format import FrameFormat
from headrace.video.random_access import RandomAccess
from headrace.video.stream_index import StreamIndex

_GOPS_BACK = (1, 3)
"""How many keyframes to go back if a signaled entry decodes with errors: with periodic intra
refresh, frames are complete only one or two keyframes later."""


class PyavDecoder(StreamDecoder[Pixels]):
    """Decodes jobs of one stream with FFmpeg. Not thread-safe: one per thread.

    A job close after the last one continues without a seek. Disposable frames that are not
    requested are not decoded, where the index shows that this is exact. Frames are equal, bit for
    bit, to those of a linear reference decode. Frames with reported damage, and frames that refer
    to them, are listed in a DecodeError. In doubt, the GOPs are verified once by a reference
    decode, and the result is stored with the index.
    """

    def __init__(
        self,
        index: StreamIndex,
        shape: FrameFormat | None = None,
        decoding: DecoderConfig = ON_CPU,
        converter: Converter[Pixels] | None = None,
    ) -> None:
        """Open nothing yet; without `converter`, pixels are arrays."""
        super().__init__(index, shape, converter)
        self._codecs = stream_codecs(decoding, index, self.counters)
        self._session = DecodeSession(index, self.counters, self._codecs)
        self._depth = 0
        """How many GOPs before its own the last frame had to be decoded from."""

    @property
    def brought_down_bytes(self) -> int:
        """Bytes copied from the GPU so far; 0 where the CPU decodes."""
        return self.counters.brought_down_bytes

    def rest(self) -> None:
        """Release the codec's memory; the file stays open, and the next job seeks."""
        self._session.release_codec()

    def close(self) -> None:
        """Release the file and the codec."""
        self._session.close()

    def _start_anew(self) -> None:
        self._session.mark_failed()

    def _error_of(self, job: DecodeJob, missing: Sequence[int]) -> DecodeError:
        policies = "" if job.conceals else f"{POLICIES}; or "
        reason = f"the file is damaged there; {policies}copy the file again"
        return undecodable(self.index, missing, reason)

    def _decode(
        self, job: DecodeJob, conversion: Conversion[Pixels], lost: list[int]
    ) -> Iterator[tuple[int, Pixels]]:
        yield from self._decode_intact(job, conversion, lost)
        if lost:
            self._codecs.check_lost(lost[0], self._decodes_on_cpu)
        if lost and job.conceals:
            for frame_index, frame in decode_concealed(self.index, lost, self.counters):
                if (pixels := conversion.pixels(frame_index, frame)) is not None:
                    self._concealed.add(frame_index)
                    yield frame_index, pixels

    def _decode_intact(
        self, job: DecodeJob, conversion: Conversion[Pixels], lost: list[int]
    ) -> Iterator[tuple[int, Pixels]]:
        """Yield the wanted frames in order; add damaged ones to `lost`.

        Each frame is converted when it is output, while it is in the processor's cache, and
        delivered when it is settled.
        """
        remaining = deque(job.wanted)
        session, frame_status = self._session, self.index.frame_status
        while remaining:
            frame_index = remaining[0]
            if frame_status.is_damaged(frame_index):
                lost.append(remaining.popleft())
                continue
            for gop, skips in self._attempts(frame_index):
                wanted = [other for other in remaining if not frame_status.is_damaged(other)]
                if frame_index not in wanted[:1]:
                    break  # Another thread has found the frame damaged meanwhile.
                due = iter(wanted)
                pending: deque[tuple[int, Pixels | None]] = deque()
                for decoded_index, frame in session.decode_range(gop, wanted, job, skips=skips):
                    if decoded_index != next(due) or not self._is_right(decoded_index, frame):
                        # Another attempt delivers this frame, or the one missing before it.
                        session.invalidate()
                        session.is_broken = True
                        break
                    pending.append((decoded_index, conversion.pixels(decoded_index, frame)))
                    yield from self._settled(remaining, pending, lost)
                if not session.is_broken:
                    yield from self._settled(remaining, pending, lost)
                if not remaining or remaining[0] != frame_index:
                    self._depth = max(0, self.index.gop_of(frame_index) - gop)
                    break
                session.invalidate()
            else:
                lost.append(remaining.popleft())

    def _settled(
        self,
        remaining: deque[int],
        pending: deque[tuple[int, Pixels | None]],
        lost: list[int],
    ) -> Iterator[tuple[int, Pixels]]:
        """Yield the settled pending frames; add wanted frames before them to `lost`."""
        while pending and self._session.is_settled(pending[0][0]):
            frame_index, pixels = pending.popleft()
            while remaining[0] != frame_index:
                lost.append(remaining.popleft())
            remaining.popleft()
            if pixels is not None:
                yield frame_index, pixels

    def _attempts(self, frame_index: int) -> Iterator[tuple[int, bool]]:
        """Yield (GOP to start at, whether to skip disposable frames), the cheapest attempt first.

        Call for another attempt only if the frame was not delivered.
        """
        index, gop = self.index, self.index.gop_of(frame_index)
        entry = self._back(gop, self._depth)
        if (
            not index.frame_status.knows(frame_index)
            and index.gop_random_access.item(entry) != RandomAccess.UNVERIFIED
        ):
            if index.can_skip:
                yield entry, True
            yield entry, False
            for depth in _GOPS_BACK:
                if self._back(gop, depth) < entry:
                    entry = self._back(gop, depth)
                    yield entry, False
        self._verify_gop(frame_index)
        first, _ = guaranteed_span(index, gop)
        depth, entry = self._depth, gop + 1
        while entry > 0 and not index.frame_status.is_damaged(frame_index):
            # The frame's digest is known: go further back until it matches, at last to the start.
            entry = max(0 if entry <= first else first, gop - depth)
            yield entry, False
            while self._session.doubtful_frame is not None:
                self._verify_gop(self._session.doubtful_frame)  # in a later GOP: same attempt
                yield entry, False
            depth = 2 * depth + 1

    def _verify_gop(self, frame_index: int) -> None:
        """Verify the GOP of a frame, unless its status is known, and store the result."""
        if not self.index.frame_status.knows(frame_index):
            verify_gop(self.index, frame_index)
            save_frame_status(self.index)

    def _back(self, gop: int, depth: int) -> int:
        """Return the GOP `depth` before `gop`, or the guaranteed entry in between."""
        return max(guaranteed_span(self.index, gop)[0], gop - depth) if depth else gop

    def _is_right(self, frame_index: int, frame: VideoFrame) -> bool:
        """Return whether a frame equals the reference decode's; True if that is unknown."""
        frame_status = self.index.frame_status
        if not frame_status.knows(frame_index):
            return True
        return not frame_status.differs(frame_index, digest_of(self._codecs.to_planar(frame)))

    def _decodes_on_cpu(self, frame_index: int) -> bool:
        cpu_decoder: PyavDecoder[Array] = PyavDecoder(self.index, self.shape)
        with closing(cpu_decoder):
            try:
                return any(cpu_decoder.run(DecodeJob((frame_index,), goes_on=False)))
            except DecodeError:
                return False
