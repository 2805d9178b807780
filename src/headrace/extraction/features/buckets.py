"""Batches filled by samples of many chunks: one bucket for each size that the model sees."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.extraction.features.assembly import Assembly, Ready

_BATCH_BYTES = 256 << 20
"""Of samples in a batch: no more wait for the model at a time."""
_MOST_BUCKETS = 4
"""Sizes at a time; where there are more, the fullest goes to the model before it is full."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Share:
    """Samples of one chunk in a batch, one after the other."""

    assembly: Assembly
    rows: NDArray[np.int64]
    """Their places in the chunk."""
    came_ns: int
    """When they were ready for the model."""


@dataclass(kw_only=True, eq=False)
class Batch:
    """Samples of one size."""

    shares: list[Share] = field(default_factory=list)
    memory: torch.Tensor | None = None
    """[batch size, ...], where several shares are put together; used again."""
    whole: torch.Tensor | None = None
    """The batch itself, where one share fills it: nothing is copied."""

    def __len__(self) -> int:
        return sum(len(share.rows) for share in self.shares)

    @property
    def tensor(self) -> torch.Tensor:
        """What the model is given, [N, ...]."""
        if self.whole is not None:
            return self.whole
        assert self.memory is not None
        return self.memory[: len(self)]

    def clear(self) -> None:
        """Begin anew, in the same memory."""
        self.shares, self.whole = [], None


class Buckets:
    """Batches that are being filled."""

    def __init__(self, batch_size: int) -> None:
        """No samples yet."""
        self.batch_size = batch_size
        """Samples in a batch; may be made smaller. Fewer where they are too large."""
        self._batches: dict[tuple[int, ...], Batch] = {}

    def room(self, shape: tuple[int, ...]) -> int:
        """Return how many samples of a shape make its batch full."""
        batch = self._batches.get(shape)
        return max(1, self._full(shape, 4) - (0 if batch is None else len(batch)))

    def add(self, ready: Ready, assembly: Assembly, now_ns: int) -> Iterator[Batch]:
        """Take samples of a chunk; yield the batches that become full, to be run at once.

        A batch is cleared when the next is asked for. Tensors of `ready` are not kept.
        """
        shape, first = ready.shape, ready.parts[0]
        batch = self._batches.setdefault(shape, Batch())
        full = self._full(shape, first.element_size())
        at = 0
        while at < len(ready.rows):
            there = len(batch)
            count = min(len(ready.rows) - at, max(1, full - there))
            if first.ndim > len(shape) and not there and count == full:
                batch.whole = first[at : at + count]
            else:
                self._copy(batch, ready, at, there, count, full)
            rows = ready.rows[at : at + count]
            batch.shares.append(Share(assembly=assembly, rows=rows, came_ns=now_ns))
            at += count
            if len(batch) >= full:
                yield batch
                batch.clear()
        if len(self._batches) > _MOST_BUCKETS:
            yield from self._end(max(self._batches, key=lambda each: len(self._batches[each])))

    def rest(self) -> Iterator[Batch]:
        """Yield what is left, however little; no memory is kept."""
        for shape in tuple(self._batches):
            yield from self._end(shape)

    def _end(self, shape: tuple[int, ...]) -> Iterator[Batch]:
        batch = self._batches.pop(shape)
        if batch.shares:
            yield batch

    def _full(self, shape: tuple[int, ...], element_size: int) -> int:
        return max(1, min(self.batch_size, _BATCH_BYTES // (prod(shape) * element_size)))

    def _copy(self, batch: Batch, ready: Ready, at: int, there: int, count: int, full: int) -> None:
        shape, parts = ready.shape, ready.parts
        if batch.memory is None or len(batch.memory) < there + count:
            batch.memory = _memory(parts[0], (max(full, there + count), *shape))
        if parts[0].ndim > len(shape):
            batch.memory[there : there + count] = parts[0][at : at + count]
            return
        for place, frame in enumerate(parts):
            batch.memory[there, :, place] = frame


def _memory(like: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Return memory for a batch, laid out like what it is filled with: no batch is different."""
    is_last = like.ndim == 4 == len(shape) and like.is_contiguous(memory_format=torch.channels_last)
    layout = torch.channels_last if is_last else torch.contiguous_format
    return torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=layout)
