"""A chunk under way: samples go out of it to the model, and features come back to it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.extraction.features.reading import ChunkPlan, Piece
from headrace.extraction.features.result import ChunkResult, Lost, Made, Samples, Times, other_shape


@dataclass(frozen=True, kw_only=True, eq=False)
class Ready:
    """Samples of a chunk whose frames are all there."""

    rows: NDArray[np.int64]
    """int64 [n]: their places in the chunk."""
    parts: list[torch.Tensor]
    """Of a frame: one tensor, [n, 3, h, w]. Of a clip: its T frames, [3, h, w] each; n is 1."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one sample: (3, h, w), or (3, T, h, w)."""
        first = tuple(self.parts[0].shape)
        return first[1:] if len(first) == 4 else (first[0], len(self.parts), *first[1:])


@dataclass(kw_only=True, eq=False)
class Spent:
    """Nanoseconds that a chunk took so far."""

    decode: float = 0
    queue: float = 0
    prepare: float = 0
    transfer: float = 0
    model: float = 0

    def times(self) -> Times:
        """Return them in milliseconds."""
        return Times(**{f"{name}_ms": spent / 1e6 for name, spent in vars(self).items()})


@dataclass(kw_only=True, eq=False)
class _Window:
    """Prepared frames that clips to come still need."""

    frames: dict[int, torch.Tensor] = field(default_factory=dict)
    lost: dict[int, str] = field(default_factory=dict)
    next_row: int = 0

    def keep_from(self, index: int) -> None:
        self.frames = {n: frame for n, frame in self.frames.items() if n >= index}
        self.lost = {n: cause for n, cause in self.lost.items() if n >= index}


class Assembly:
    """What is there of one chunk so far."""

    def __init__(self, plan: ChunkPlan, started_seconds: float) -> None:
        """Nothing is there yet."""
        self.plan = plan
        self.spent = Spent()
        self._decoded = 0
        self._started_seconds = started_seconds
        self._features: NDArray[Any] | None = None
        self._is_there = np.zeros(len(plan.starts), np.bool_)
        self._is_concealed = np.zeros(len(plan.starts), np.bool_)
        self._lost: dict[int, str] = {}
        self._concealed: set[int] = set()
        self._window = _Window()
        self._is_read = False

    @property
    def is_complete(self) -> bool:
        """Whether each sample came or is lost."""
        return self._is_read and int(self._is_there.sum()) + len(self._lost) == len(self._is_there)

    def take(self, piece: Piece, prepared: torch.Tensor) -> Iterator[Ready]:
        """Yield the samples that are whole with a piece.

        Args:
            piece: The next one of the chunk.
            prepared: What the model sees of its frames, [k, 3, h, w].
        """
        self._is_read = piece.is_last
        self._decoded += piece.decoded
        self._concealed |= piece.concealed
        if self.plan.frames.shape[1] > 1:
            yield from self._clips(piece, prepared)
            return
        rows = np.searchsorted(self.plan.starts, piece.index)
        self._is_concealed[rows] = np.isin(piece.index, list(piece.concealed))
        for index, cause in piece.lost.items():
            self._lost[int(np.searchsorted(self.plan.starts, index))] = cause
        if len(rows):
            yield Ready(rows=rows, parts=[prepared])

    def put(self, rows: NDArray[np.int64], features: NDArray[Any]) -> None:
        """Take the features of some samples.

        Raises:
            ConfigError: they have another shape than those before.
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
        """Return what came of the chunk, which is complete.

        Args:
            shape: Of one feature, where none came.
            dtype: Of features, where none came.
            worker: Who did it.
            ended_seconds: Since 1970-01-01 UTC: now.
        """
        plan, there = self.plan, self._is_there
        features = self._features if self._features is not None else np.empty((0, *shape), dtype)
        if self._lost:
            features = features[there] if there.any() else np.empty((0, *shape), dtype)
        index = plan.starts[there]
        return ChunkResult(
            chunk=plan.chunk,
            size=plan.index.info.upright_size,
            time_base=plan.index.info.time_base,
            samples=Samples(
                index=index,
                pts=plan.index.pts[index],
                is_concealed=self._is_concealed[there],
                features=features,
            ),
            lost=tuple(
                Lost(index=int(plan.starts[row]), cause=cause)
                for row, cause in sorted(self._lost.items())
            ),
            made=Made(
                times=self.spent.times(),
                frames_decoded=self._decoded,
                worker=worker,
                started_seconds=self._started_seconds,
                ended_seconds=ended_seconds,
            ),
        )

    def _clips(self, piece: Piece, prepared: torch.Tensor) -> Iterator[Ready]:
        window, plan = self._window, self.plan
        window.frames |= dict(zip(piece.index.tolist(), prepared.unbind(), strict=True))
        window.lost |= piece.lost
        while window.next_row < len(plan.starts):
            row = window.next_row
            wanted = plan.frames[row].tolist()
            if wanted[-1] >= piece.until:
                break
            window.next_row += 1
            cause = next((window.lost[n] for n in wanted if n in window.lost), None)
            if cause is not None:
                self._lost[row] = f"a frame of the clip is lost: {cause}"
            else:
                self._is_concealed[row] = any(n in self._concealed for n in wanted)
                yield Ready(
                    rows=np.array([row], np.int64), parts=[window.frames[n] for n in wanted]
                )
            if window.next_row < len(plan.starts):
                window.keep_from(int(plan.starts[window.next_row]))
