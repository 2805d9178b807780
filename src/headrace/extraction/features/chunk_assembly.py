"""Chunks in progress: their samples fill model batches, and their features are collected."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.extraction.features.chunk_reader import ChunkPlan, Piece
from headrace.extraction.features.feature_result import (
    ChunkResult,
    ResultInfo,
    Samples,
    Times,
    other_shape,
)
from headrace.extraction.journal import Lost
from headrace.runtime.clock import Clock


@dataclass(frozen=True, kw_only=True, eq=False)
class ReadySamples:
    """Samples of one chunk that are ready for the model, or their place in a batch."""

    assembly: "Assembly"
    rows: NDArray[np.int64]
    """int64 [n]: positions of the samples in the chunk."""
    came_ns: int
    """Time they were ready for the model."""
    parts: list[torch.Tensor] = field(default_factory=list)
    """Preprocessed frames: one tensor, [n, 3, h, w]. A clip: its T frames, [3, h, w] each; n is 1.
    Empty in a batch."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample: (3, h, w), or (3, T, h, w)."""
        first = tuple(self.parts[0].shape)
        return first[1:] if len(first) == 4 else (first[0], len(self.parts), *first[1:])


class Assembly:
    """Samples and features of one chunk so far."""

    def __init__(self, plan: ChunkPlan, started_seconds: float) -> None:
        """Start without samples."""
        self.plan = plan
        self.spent = defaultdict[str, float](float)
        """Part of the work → nanoseconds: see `Times`."""
        self._decoded = 0
        self._started_seconds = started_seconds
        self._features: NDArray[Any] | None = None
        self._is_there = np.zeros(len(plan.starts), np.bool_)
        self._is_concealed = np.zeros(len(plan.starts), np.bool_)
        self._lost: dict[int, str] = {}
        self._concealed: set[int] = set()
        self._frames: dict[int, torch.Tensor] = {}
        self._lost_frames: dict[int, str] = {}
        """Prepared and lost frames that later clips still need."""
        self._next_row = 0
        self._is_read = False

    @property
    def is_complete(self) -> bool:
        """Whether each sample has a feature or is lost."""
        return self._is_read and int(self._is_there.sum()) + len(self._lost) == len(self._is_there)

    def take(self, piece: Piece, prepared: torch.Tensor, clock: Clock) -> Iterator[ReadySamples]:
        """Yield the samples that a piece completes.

        Args:
            piece: Next piece of the chunk.
            prepared: Model input of its frames, [k, 3, h, w].
            clock: Clock for the times at which samples are ready.
        """
        self._is_read = piece.is_last
        self._decoded += piece.decoded
        self._concealed |= piece.concealed
        if self.plan.frames.shape[1] > 1:
            yield from self._clips(piece, prepared, clock)
            return
        rows = np.searchsorted(self.plan.starts, piece.index)
        self._is_concealed[rows] = np.isin(piece.index, list(piece.concealed))
        for index, cause in piece.lost.items():
            self._lost[int(np.searchsorted(self.plan.starts, index))] = cause
        if len(rows):
            yield ReadySamples(assembly=self, rows=rows, came_ns=clock.now_ns(), parts=[prepared])

    def put(self, rows: NDArray[np.int64], features: NDArray[Any]) -> None:
        """Store the features of some samples.

        Raises:
            ConfigError: their shape differs from that of earlier features.
        """
        if self._features is None:
            self._features = np.empty((len(self._is_there), *features.shape[1:]), features.dtype)
        if features.shape[1:] != self._features.shape[1:]:
            raise other_shape(features.shape[1:], self._features.shape[1:])
        self._features[rows] = features
        self._is_there[rows] = True

    def result(
        self, shape: tuple[int, ...], dtype: str, worker: str, ended_seconds: float
    ) -> ChunkResult:
        """Return the result of the complete chunk.

        Args:
            shape: Shape of one feature, if the chunk has no feature.
            dtype: Dtype of features, if the chunk has no feature.
            worker: Name of the worker.
            ended_seconds: Unix time of completion.
        """
        plan, has_feature = self.plan, self._is_there
        features = self._features if self._features is not None else np.empty((0, *shape), dtype)
        if self._lost:
            features = features[has_feature] if has_feature.any() else np.empty((0, *shape), dtype)
        index = plan.starts[has_feature]
        return ChunkResult(
            chunk_id=plan.chunk.name,
            size=plan.index.info.upright_size,
            time_base=plan.index.info.time_base,
            samples=Samples(
                index=index,
                pts=plan.index.pts[index],
                is_concealed=self._is_concealed[has_feature],
                features=features,
            ),
            lost=tuple(
                Lost(index=int(plan.starts[row]), cause=cause)
                for row, cause in sorted(self._lost.items())
            ),
            made=ResultInfo(
                times=Times(**{f"{part}_ms": ns / 1e6 for part, ns in self.spent.items()}),
                frames_decoded=self._decoded,
                worker=worker,
                started_seconds=self._started_seconds,
                ended_seconds=ended_seconds,
            ),
        )

    def _clips(self, piece: Piece, prepared: torch.Tensor, clock: Clock) -> Iterator[ReadySamples]:
        plan = self.plan
        self._frames |= dict(zip(piece.index.tolist(), prepared.unbind(), strict=True))
        self._lost_frames |= piece.lost
        while self._next_row < len(plan.starts):
            row = self._next_row
            indices = plan.frames[row].tolist()
            if indices[-1] >= piece.until:
                break
            self._next_row += 1
            cause = next((self._lost_frames[n] for n in indices if n in self._lost_frames), None)
            if cause is not None:
                self._lost[row] = f"a frame of the clip is lost: {cause}"
            else:
                self._is_concealed[row] = any(n in self._concealed for n in indices)
                frames = [self._frames[n] for n in indices]
                yield ReadySamples(
                    assembly=self,
                    rows=np.array([row], np.int64),
                    came_ns=clock.now_ns(),
                    parts=frames,
                )
            if self._next_row < len(plan.starts):
                first = int(plan.starts[self._next_row])
                self._frames = {n: frame for n, frame in self._frames.items() if n >= first}
                self._lost_frames = {n: why for n, why in self._lost_frames.items() if n >= first}


_BATCH_BYTES = 256 << 20
"""Max bytes of samples in a batch."""
_MOST_BUCKETS = 4
"""Max batches of different sample sizes at a time; with more, the fullest is run early."""


@dataclass(kw_only=True, eq=False)
class ModelBatch:
    """Batch of samples of one size."""

    shares: list[ReadySamples] = field(default_factory=list)
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

    def clear(self) -> None:
        """Empty the batch; keep its memory."""
        self.shares, self.whole = [], None


class Buckets:
    """Batches being filled, one per sample size."""

    def __init__(self, batch_size: int) -> None:
        """Start without samples."""
        self.batch_size = batch_size
        """Samples in a batch; may be lowered. Batches of large samples have fewer."""
        self._batches: dict[tuple[int, ...], ModelBatch] = {}

    def room(self, shape: tuple[int, ...]) -> int:
        """Return the number of samples of a shape that fill a batch."""
        batch = self._batches.get(shape)
        return max(1, self._full(shape, 4) - (0 if batch is None else len(batch)))

    def add(self, ready: ReadySamples) -> Iterator[ModelBatch]:
        """Add samples of a chunk; yield each full batch.

        Run a batch before requesting the next, which clears it. Tensors of `ready` are not kept.
        """
        shape, first = ready.shape, ready.parts[0]
        batch = self._batches.setdefault(shape, ModelBatch())
        full = self._full(shape, first.element_size())
        offset = 0
        while offset < len(ready.rows):
            filled = len(batch)
            count = min(len(ready.rows) - offset, max(1, full - filled))
            if first.ndim > len(shape) and not filled and count == full:
                batch.whole = first[offset : offset + count]
            else:
                self._copy(batch, ready, offset, filled, count, full)
            rows = ready.rows[offset : offset + count]
            batch.shares.append(replace(ready, rows=rows, parts=[]))
            offset += count
            if len(batch) >= full:
                yield batch
                batch.clear()
        if len(self._batches) > _MOST_BUCKETS:
            yield from self._end(
                max(self._batches, key=lambda shape_of_batch: len(self._batches[shape_of_batch]))
            )

    def rest(self) -> Iterator[ModelBatch]:
        """Yield all partly filled batches, and free their memory."""
        for shape in tuple(self._batches):
            yield from self._end(shape)

    def _end(self, shape: tuple[int, ...]) -> Iterator[ModelBatch]:
        batch = self._batches.pop(shape)
        if batch.shares:
            yield batch

    def _full(self, shape: tuple[int, ...], element_size: int) -> int:
        return max(1, min(self.batch_size, _BATCH_BYTES // (prod(shape) * element_size)))

    def _copy(
        self,
        batch: ModelBatch,
        ready: ReadySamples,
        offset: int,
        filled: int,
        count: int,
        full: int,
    ) -> None:
        shape, parts = ready.shape, ready.parts
        if batch.memory is None or len(batch.memory) < filled + count:
            batch.memory = _memory(parts[0], (max(full, filled + count), *shape))
        if parts[0].ndim > len(shape):
            batch.memory[filled : filled + count] = parts[0][offset : offset + count]
            return
        for position, frame in enumerate(parts):
            batch.memory[filled, :, position] = frame


def _memory(like: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Return memory for a batch with the memory format of `like`."""
    is_last = like.ndim == 4 == len(shape) and like.is_contiguous(memory_format=torch.channels_last)
    layout = torch.channels_last if is_last else torch.contiguous_format
    return torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=layout)
