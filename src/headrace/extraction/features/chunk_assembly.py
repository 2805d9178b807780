"""Chunks in progress: their samples fill model batches, and their features are collected."""

from collections import defaultdict
from collections.abc import Collection, Iterator
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
    shape_error,
)
from headrace.extraction.journal import Lost
from headrace.runtime.clock import Clock


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
        """Yield the samples that a piece completes, and their model input, [n, ...].

        Args:
            piece: Next piece of the chunk.
            prepared: Model input of its frames, [k, 3, h, w].
            clock: Clock for the times at which samples are ready.
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
        """Store the features of some samples.

        Raises:
            ConfigError: their shape differs from that of earlier features.
        """
        if self._features is None:
            self._features = np.empty((len(self._has_feature), *features.shape[1:]), features.dtype)
        if features.shape[1:] != self._features.shape[1:]:
            raise shape_error(features.shape[1:], self._features.shape[1:])
        self._features[rows] = features
        self._has_feature[rows] = True

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
                batch.clear()
        if len(self._batches) > _MAX_BUCKETS:
            yield from self._end(max(self._batches, key=lambda key: len(self._batches[key])))

    def flush(self) -> Iterator[ModelBatch]:
        """Yield all partly filled batches, and free their memory."""
        for shape in tuple(self._batches):
            yield from self._end(shape)

    def _end(self, shape: tuple[int, ...]) -> Iterator[ModelBatch]:
        batch = self._batches.pop(shape)
        if batch.shares:
            yield batch

    def _full(self, shape: tuple[int, ...], element_size: int) -> int:
        return max(1, min(self.batch_size, _BATCH_BYTES // (prod(shape) * element_size)))


def _memory(like: torch.Tensor, size: int) -> torch.Tensor:
    """Return memory for a batch of `size` samples, with the memory format of `like`."""
    is_channels_last = like.ndim == 4 and like.is_contiguous(memory_format=torch.channels_last)
    layout = torch.channels_last if is_channels_last else torch.contiguous_format
    shape = (size, *like.shape[1:])
    return torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=layout)
