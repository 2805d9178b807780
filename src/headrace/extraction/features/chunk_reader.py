"""Reader of the decoded frames of chunks, piece by piece."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headrace.cached_property import cached_property
from headrace.decode.frame_outputs import Array
from headrace.decode.job_result import run_job
from headrace.decode.protocol import DecodeJob, Decoder, OnError
from headrace.errors import MediaError
from headrace.extraction.decode_jobs import Decoders, JobQueue, jobs
from headrace.extraction.features.model_spec import Sampling
from headrace.planning.chunks import Chunk
from headrace.planning.gop_ranges import split_ranges
from headrace.runtime.buffer_pool import BatchBufferPool
from headrace.runtime.clock import Clock
from headrace.video.frame_format import FrameFormat
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

    @classmethod
    def of(
        cls,
        chunk: Chunk,
        index: StreamIndex,
        sampling: Sampling,
        everywhere: NDArray[np.int64],
    ) -> "ChunkPlan":
        """Return the plan of a chunk.

        Args:
            chunk: Range of samples.
            index: Index of its video.
            sampling: Definition of a sample.
            everywhere: `sampling.starts(index)` of the whole video.
        """
        starts = chunk.of(everywhere)
        frames = sampling.frames(starts)
        after = everywhere[np.searchsorted(everywhere, chunk.stop) :]
        follows = len(after) > 0 and len(starts) > 0
        return cls(
            chunk=chunk,
            index=index,
            starts=starts,
            frames=frames,
            goes_on=follows and index.gop_of(int(after[0])) <= index.gop_of(int(frames.max())) + 1,
        )

    @cached_property
    def wanted(self) -> NDArray[np.int64]:
        """Frames decoded for the chunk, int64, ascending, each once."""
        return np.unique(self.frames)


@dataclass(frozen=True, kw_only=True, eq=False)
class Piece:
    """Some decoded frames of a chunk."""

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
    came_ns: int
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
        index_of: Callable[[int], StreamIndex],
        sampling: Sampling,
        *,
        shape_of: Callable[[tuple[int, int]], FrameFormat],
        on_error: OnError,
        decoders: Decoders,
        most: Callable[[tuple[int, int]], int],
        clock: Clock,
    ) -> None:
        """Open nothing yet.

        Args:
            index_of: Video number → index; may raise MediaError.
            sampling: Definition of a sample.
            shape_of: (height, width) of a video → output format of its frames.
            on_error: Policy for bad media.
            decoders: Opens decoders.
            most: (height, width) → max frames of a piece.
            clock: Clock for decode times.
        """
        self._index_of, self._sampling = index_of, sampling
        self._shape_of, self._on_error, self._most = shape_of, on_error, most
        self._decoders = decoders
        self._clock = clock
        self._buffers = BatchBufferPool(_BUFFERS)
        self._decoder: Decoder[Array] | None = None
        self._video = -1
        self._starts: NDArray[np.int64] = np.zeros(0, np.int64)

    def read(self, chunk: Chunk) -> Iterator[Piece | UnreadableChunk]:
        """Yield the frames of a chunk, in order, in pieces; the last piece has `is_last`.

        Memory of frames is reused when no caller holds a reference.

        Raises:
            MediaError: bad media, with `on_error` "raise".
            BackendError: the backend cannot decode the video.
        """
        try:
            decoder = self._opened(chunk.video)
        except MediaError as error:
            if self._on_error == "raise":
                raise
            yield UnreadableChunk(chunk=chunk, error=error)
            return
        plan = ChunkPlan.of(chunk, decoder.index, self._sampling, self._starts)
        size = decoder.shape.output_size(decoder.index.info.upright_size)
        max_frames = max(1, _PIECE_BYTES // (3 * size[0] * size[1]))
        ranges = list(split_ranges(chunk.video, plan.index, plan.wanted))
        conceals = self._on_error == "conceal"
        queue = JobQueue(jobs(ranges, conceals=conceals, goes_on=plan.goes_on))
        while taken := queue.take(max(1, min(max_frames, self._most(size)))):
            yield self._piece(decoder, plan, taken, size)

    def close(self) -> None:
        """Close the video."""
        if self._decoder is not None:
            self._decoder.close()
            self._decoder = None
        self._buffers.close()

    def _piece(
        self,
        decoder: Decoder[Array],
        plan: ChunkPlan,
        taken: list[DecodeJob],
        size: tuple[int, int],
    ) -> Piece:
        began_ns = self._clock.now_ns()
        wanted = np.array([index for job in taken for index in job.wanted], np.int64)
        frames = self._buffers.acquire((len(wanted), *size, 3))
        offset, is_decoded, concealed = 0, [], set[int]()
        lost: dict[int, str] = {}
        decoded = 0
        for job in taken:
            reading = run_job(decoder, job, frames[offset : offset + len(job.wanted)])
            offset += len(job.wanted)
            if reading.error is not None:
                if self._on_error == "raise":
                    raise reading.error
                lost |= dict.fromkeys(reading.lost, str(reading.error))
            is_decoded.append(np.isin(job.wanted, list(reading.decoded)))
            concealed |= reading.concealed
            decoded += reading.cost.frames_decoded
        is_there = np.concatenate(is_decoded)
        now_ns = self._clock.now_ns()
        return Piece(
            plan=plan,
            frames=frames if is_there.all() else frames[is_there],
            index=wanted[is_there],
            until=int(wanted[-1]) + 1,
            concealed=frozenset(concealed),
            lost=lost,
            decoded=decoded,
            decode_ns=now_ns - began_ns,
            came_ns=now_ns,
            is_last=bool(wanted[-1] == plan.wanted[-1]),
        )

    def _opened(self, video: int) -> Decoder[Array]:
        if self._decoder is None or self._video != video:
            index = self._index_of(video)
            if self._decoder is not None:
                self._decoder.close()
            shape = self._shape_of(index.info.upright_size)
            self._decoder = self._decoders.open(index, shape)
            self._video, self._starts = video, self._sampling.starts(index)
        return self._decoder
