"""Reader of the decoded frames of chunks, piece by piece."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headrace.cached_property import cached_property
from headrace.decode.frame_outputs import Array
from headrace.decode.open_decoder import LatestDecoder
from headrace.decode.protocol import DecodeJob, Decoder, JobResult, OnError, run_job
from headrace.errors import MediaError
from headrace.extraction.chunk_worker import group_jobs, plan_jobs
from headrace.extraction.features.model_spec import SampleSpec
from headrace.planning.chunks import Chunk
from headrace.runtime.buffer_pool import BatchBufferPool
from headrace.runtime.clock import Clock
from headrace.video.stream_index import StreamIndex

_PIECE_BYTES = 48 << 20
"""Bytes of decoded frames in a piece: 17 frames of 720p."""
_BUFFERS = 8
"""Max pieces with reused memory."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ChunkPlan:
    """Samples of a chunk, and their frames."""

    chunk: Chunk
    index: StreamIndex
    """Index of its video."""
    starts: NDArray[np.int64]
    """int64 [n]: first frame of each sample, ascending."""
    frames: NDArray[np.int64]
    """int64 [n, T]: frames of each sample."""
    goes_on: bool
    """Whether the decoder may continue into the next chunk of the video."""

    @cached_property
    def wanted(self) -> NDArray[np.int64]:
        """Frames decoded for the chunk, int64, ascending, each once."""
        return np.unique(self.frames)


@dataclass(frozen=True, kw_only=True, eq=False)
class Piece:
    """Part of a chunk: decoded frames."""

    plan: ChunkPlan
    frames: Array
    """uint8 [k, H, W, 3], RGB: successfully decoded frames, ascending."""
    index: NDArray[np.int64]
    """int64 [k]: indices of the frames."""
    until: int
    """Frame index below which all frames of the chunk are decoded or lost."""
    concealed: frozenset[int] = frozenset()
    """Indices of damaged frames with FFmpeg's error concealment."""
    lost: dict[int, str] = field(default_factory=dict)
    """Index of a lost frame → cause."""
    decoded: int
    """Frames returned by the codec."""
    decode_ns: int
    decoded_ns: int
    """Time of completion."""
    is_last: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class UnreadableChunk:
    """Chunk of a video that cannot be opened, or has changed."""

    chunk: Chunk
    error: MediaError


class ChunkReader:
    """Reads chunks one after another; keeps the last video open, often the next chunk's video.

    For one thread.
    """

    def __init__(
        self,
        open_video: Callable[[int], Decoder[Array]],
        sampling: SampleSpec,
        *,
        on_error: OnError,
        max_frames: Callable[[tuple[int, int]], int],
        clock: Clock,
    ) -> None:
        """Open nothing yet.

        Args:
            open_video: Video number → its decoder; may raise MediaError.
            sampling: Definition of a sample.
            on_error: Policy for bad media.
            max_frames: (height, width) → max frames of a piece.
            clock: Clock for decode times.
        """
        self._open_video, self._sampling = open_video, sampling
        self._on_error, self._max_frames, self._clock = on_error, max_frames, clock
        self._buffers = BatchBufferPool(_BUFFERS)
        self._latest = LatestDecoder(self._open)
        self._starts: NDArray[np.int64] = np.zeros(0, np.int64)

    def read(self, chunk: Chunk) -> Iterator[Piece | UnreadableChunk]:
        """Yield the frames of a chunk, in order, in pieces; the last piece has `is_last`.

        Memory of frames is reused when no caller holds a reference.

        Raises:
            MediaError: bad media, with `on_error` "raise".
            BackendError: the backend cannot decode the video.
        """
        try:
            decoder = self._latest.of(chunk.video)
        except MediaError as error:
            if self._on_error == "raise":
                raise
            yield UnreadableChunk(chunk=chunk, error=error)
            return
        plan = self._plan(chunk, decoder.index)
        size = decoder.shape.output_size(decoder.index.info.upright_size)
        limit = _PIECE_BYTES // (3 * size[0] * size[1])
        conceals = self._on_error == "conceal"
        jobs = plan_jobs(plan.index, plan.wanted, conceals=conceals, goes_on=plan.goes_on)
        for group in group_jobs(jobs, lambda: max(1, min(limit, self._max_frames(size)))):
            yield self._piece(decoder, plan, group, size)

    def close(self) -> None:
        """Close the video."""
        self._latest.close()
        self._buffers.close()

    def _plan(self, chunk: Chunk, index: StreamIndex) -> ChunkPlan:
        starts = chunk.of(self._starts)
        frames = self._sampling.frames(starts)
        later = self._starts[np.searchsorted(self._starts, chunk.stop) :]
        has_later = len(later) > 0 and len(starts) > 0
        return ChunkPlan(
            chunk=chunk,
            index=index,
            starts=starts,
            frames=frames,
            goes_on=has_later
            and index.gop_of(int(later[0])) <= index.gop_of(int(frames.max())) + 1,
        )

    def _piece(
        self,
        decoder: Decoder[Array],
        plan: ChunkPlan,
        jobs: list[DecodeJob],
        size: tuple[int, int],
    ) -> Piece:
        began_ns = self._clock.now_ns()
        wanted = np.array([index for job in jobs for index in job.wanted], np.int64)
        frames = self._buffers.acquire((len(wanted), *size, 3))
        results: list[JobResult] = []
        offset = 0
        for job in jobs:
            results.append(run_job(decoder, job, frames[offset : offset + len(job.wanted)]))
            if self._on_error == "raise":
                results[-1].check()
            offset += len(job.wanted)
        is_decoded = np.isin(wanted, [index for result in results for index in result.decoded])
        now_ns = self._clock.now_ns()
        return Piece(
            plan=plan,
            frames=frames if is_decoded.all() else frames[is_decoded],
            index=wanted[is_decoded],
            until=int(wanted[-1]) + 1,
            concealed=frozenset(index for result in results for index in result.concealed),
            lost={index: str(result.error) for result in results for index in result.lost},
            decoded=sum(result.cost.frames_decoded for result in results),
            decode_ns=now_ns - began_ns,
            decoded_ns=now_ns,
            is_last=bool(wanted[-1] == plan.wanted[-1]),
        )

    def _open(self, video: int) -> Decoder[Array]:
        decoder = self._open_video(video)
        self._starts = self._sampling.starts(decoder.index)
        return decoder
