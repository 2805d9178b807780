"""Chunks in progress: frames read in pieces, samples in batches for the model, and results."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.decode.frame_outputs import Array
from headrace.decode.open_decoder import LatestDecoder
from headrace.decode.protocol import DecodeJob, Decoder, JobResult, OnError, run_job
from headrace.errors import MediaError
from headrace.extraction.chunk_worker import group_jobs, plan_jobs
from headrace.extraction.features.feature_result import (
    ChunkResult,
    ResultInfo,
    Samples,
    Times,
)
from headrace.extraction.features.model_spec import SampleSpec
from headrace.extraction.journal import Lost
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
    wanted: NDArray[np.int64]
    """int64: frames decoded for the chunk, ascending, each once."""
    goes_on: bool
    """Whether the decoder may continue into the next chunk of the video."""


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


UnreadableChunk = tuple[Chunk, MediaError]
"""Chunk of a video that cannot be opened, or has changed, and the reason."""


class ChunkReader:
    """Reads chunks one after another; keeps the last video open. For one thread."""

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
            yield chunk, error
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
        wanted = np.unique(frames)
        later = self._starts[self._starts >= chunk.stop]
        goes_on = len(later) > 0 and len(wanted) > 0
        if goes_on:
            goes_on = index.gop_of(int(later[0])) <= index.gop_of(int(wanted[-1])) + 1
        arrays = {"starts": starts, "frames": frames, "wanted": wanted}
        return ChunkPlan(chunk=chunk, index=index, goes_on=goes_on, **arrays)

    def _piece(
        self, decoder: Decoder[Array], plan: ChunkPlan, jobs: list[DecodeJob], size: tuple[int, int]
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Share:
    """Samples of one chunk, ready for the model or in a batch."""

    assembly: "Assembly"
    rows: NDArray[np.int64]
    """int64 [n]: positions of the samples in the chunk."""
    ready_ns: int
    """Time at which they were ready for the model."""


class Assembly:
    """Samples and features of one chunk in progress."""

    def __init__(self, plan: ChunkPlan, started_seconds: float) -> None:
        """Start without samples."""
        self.plan = plan
        self.spent = defaultdict[str, float](float)
        """Part of the work → nanoseconds: see `Times`."""
        self._decoded = 0
        self._started_seconds = started_seconds
        self._features: NDArray[Any] | None = None
        self._has_feature = np.zeros(len(plan.starts), np.bool_)
        self._is_lost: NDArray[np.bool_] | None = None
        """bool [n]: whether a frame of the sample is lost; None until all frames are read."""
        self._lost: dict[int, str] = {}
        """Index of a lost frame → cause."""
        self._concealed: set[int] = set()
        self._frames: dict[int, torch.Tensor] = {}
        """Prepared frames that later clips still need."""
        self._next_row = 0

    @property
    def is_complete(self) -> bool:
        """Whether each sample has a feature or is lost."""
        return self._is_lost is not None and bool((self._has_feature | self._is_lost).all())

    def take(
        self, piece: Piece, prepared: torch.Tensor, clock: Clock
    ) -> Iterator[tuple[Share, torch.Tensor]]:
        """Yield the samples that the next piece completes, and their model input, [n, ...].

        `prepared`: model input of the frames of the piece, [k, 3, h, w].
        """
        self._decoded += piece.decoded
        self._concealed |= piece.concealed
        self._lost |= piece.lost
        if piece.is_last:
            self._is_lost = self._has_frame_in(self._lost)
        if self.plan.frames.shape[1] > 1:
            yield from self._clips(piece, prepared, clock)
        elif len(piece.index):
            rows = np.searchsorted(self.plan.starts, piece.index)
            yield Share(assembly=self, rows=rows, ready_ns=clock.now_ns()), prepared

    def put(self, rows: NDArray[np.int64], features: NDArray[Any]) -> None:
        """Store the features of some samples, of one shape for all samples."""
        if self._features is None:
            self._features = np.empty((len(self._has_feature), *features.shape[1:]), features.dtype)
        self._features[rows] = features
        self._has_feature[rows] = True

    def result(
        self, shape: tuple[int, ...], dtype: str, worker: str, ended_seconds: float
    ) -> ChunkResult:
        """Return the result of the complete chunk, which ended at Unix time `ended_seconds`.

        `shape` and `dtype` are those of a feature, for a chunk without features.
        """
        plan, has_feature = self.plan, self._has_feature
        features = self._features
        if features is None:
            features = np.empty((0, *shape), dtype)
        elif not has_feature.all():
            features = features[has_feature]
        index = plan.starts[has_feature]
        lost_rows = np.flatnonzero(~has_feature).tolist()
        return ChunkResult(
            chunk_id=plan.chunk.name,
            size=plan.index.info.upright_size,
            time_base=plan.index.info.time_base,
            samples=Samples(
                index=index,
                pts=plan.index.pts[index],
                is_concealed=self._has_frame_in(self._concealed)[has_feature],
                features=features,
            ),
            lost=tuple(Lost(int(plan.starts[row]), self._cause(row)) for row in lost_rows),
            made=ResultInfo(
                times=Times(**{f"{part}_ms": ns / 1e6 for part, ns in self.spent.items()}),
                frames_decoded=self._decoded,
                worker=worker,
                started_seconds=self._started_seconds,
                ended_seconds=ended_seconds,
            ),
        )

    def _has_frame_in(self, frames: Collection[int]) -> NDArray[np.bool_]:
        """Return whether each sample has one of `frames`, bool [n]."""
        return np.asarray(np.isin(self.plan.frames, list(frames)).any(axis=1))

    def _cause(self, row: int) -> str:
        """Return the reason a sample is lost."""
        frames = self.plan.frames[row].tolist()
        cause = next(self._lost[index] for index in frames if index in self._lost)
        return cause if len(frames) == 1 else f"a frame of the clip is lost: {cause}"

    def _clips(
        self, piece: Piece, prepared: torch.Tensor, clock: Clock
    ) -> Iterator[tuple[Share, torch.Tensor]]:
        plan = self.plan
        self._frames |= dict(zip(piece.index.tolist(), prepared.unbind(), strict=True))
        stop = int(np.searchsorted(plan.frames[:, -1], piece.until))
        for row in range(self._next_row, stop):
            frames = plan.frames[row].tolist()
            if self._lost.keys().isdisjoint(frames):
                clip = torch.stack([self._frames[index] for index in frames], 1).contiguous()
                rows = np.array([row], np.int64)
                yield Share(assembly=self, rows=rows, ready_ns=clock.now_ns()), clip[None]
        self._next_row = stop
        first = int(plan.starts[stop]) if stop < len(plan.starts) else piece.until
        self._frames = {index: frame for index, frame in self._frames.items() if index >= first}


_BATCH_BYTES = 256 << 20
"""Max bytes of samples in a batch."""
_MAX_BUCKETS = 4
"""Max sample sizes with a batch in progress; beyond, the fullest batch is run early."""


@dataclass(kw_only=True, eq=False)
class ModelBatch:
    """Batch of samples of one size."""

    shares: list[Share] = field(default_factory=list)
    memory: torch.Tensor | None = None
    """[batch size, ...]: memory for batches of several shares; reused."""
    whole: torch.Tensor | None = None
    """The batch, if one share fills it: nothing is copied."""

    def __len__(self) -> int:
        return sum(len(share.rows) for share in self.shares)

    @property
    def tensor(self) -> torch.Tensor:
        """Model input, [N, ...]."""
        if self.whole is not None:
            return self.whole
        assert self.memory is not None
        return self.memory[: len(self)]


class Buckets:
    """Batches being filled, one per sample size."""

    def __init__(self, batch_size: int) -> None:
        """Start without samples."""
        self.batch_size = batch_size
        """Samples in a batch; may be lowered. Batches of large samples have fewer."""
        self._batches: dict[tuple[int, ...], ModelBatch] = {}

    def room(self, shape: tuple[int, ...]) -> int:
        """Return the number of samples of a shape that complete its batch."""
        batch = self._batches.get(shape)
        return max(1, self._full(shape, 4) - (0 if batch is None else len(batch)))

    def add(self, share: Share, samples: torch.Tensor) -> Iterator[ModelBatch]:
        """Add samples of a chunk, [n, ...]; yield each full batch.

        Run a batch before requesting the next, which clears it.
        """
        shape = tuple(samples.shape[1:])
        batch = self._batches.setdefault(shape, ModelBatch())
        full = self._full(shape, samples.element_size())
        offset = 0
        while offset < len(samples):
            filled = len(batch)
            count = min(len(samples) - offset, max(1, full - filled))
            part = samples[offset : offset + count]
            if not filled and count == full:
                batch.whole = part
            else:
                if batch.memory is None or len(batch.memory) < filled + count:
                    batch.memory = _memory(part, max(full, filled + count))
                batch.memory[filled : filled + count] = part
            batch.shares.append(replace(share, rows=share.rows[offset : offset + count]))
            offset += count
            if len(batch) >= full:
                yield batch
                batch.shares, batch.whole = [], None  # its memory is kept
        if len(self._batches) > _MAX_BUCKETS:
            largest = max(self._batches, key=lambda key: len(self._batches[key]))
            yield from (batch for batch in [self._batches.pop(largest)] if batch.shares)

    def flush(self) -> Iterator[ModelBatch]:
        """Yield all partly filled batches, and free their memory."""
        batches, self._batches = self._batches, {}
        yield from (batch for batch in batches.values() if batch.shares)

    def _full(self, shape: tuple[int, ...], element_size: int) -> int:
        return max(1, min(self.batch_size, _BATCH_BYTES // (prod(shape) * element_size)))


def _memory(like: torch.Tensor, size: int) -> torch.Tensor:
    """Return memory for a batch of `size` samples, with the memory format of `like`."""
    is_channels_last = like.ndim == 4 and like.is_contiguous(memory_format=torch.channels_last)
    layout = torch.channels_last if is_channels_last else torch.contiguous_format
    shape = (size, *like.shape[1:])
    return torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=layout)
