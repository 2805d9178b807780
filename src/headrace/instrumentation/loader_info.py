"""What a loader and a batch tell of themselves."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from itertools import islice
from typing import Any, Final, Literal, Self

import torch
from torch.utils.data import DataLoader

from headrace.loaders.resumable import ResumableLoader

_DEPTH: Final = 4
"""Of a nested batch, down to which its tensors are looked for."""
_WIDTH: Final = 64
"""Entries of a list that are looked at."""


@dataclass(frozen=True, kw_only=True)
class LoaderFacts:
    """What is known of a loader before it is iterated."""

    name: str
    """Its type."""
    kind: Literal["DataLoader", "headrace", "other"] = "other"
    """Whose it is."""
    dataset: str | None = None
    """Type of its dataset."""
    batch_size: int | None = None
    workers: int | None = None
    """None where it does not tell."""
    prefetch_factor: int | None = None
    has_persistent_workers: bool = False
    configuration: tuple[tuple[str, str | int | bool | None], ...] = ()
    """What it was made with, by the names of its arguments."""

    @property
    def capacity(self) -> int | None:
        """Batches that may be ready, or on their way; None where none is made ahead."""
        return (
            self.workers * self.prefetch_factor if self.workers and self.prefetch_factor else None
        )


@dataclass(frozen=True, kw_only=True)
class BatchFacts:
    """What is known of a batch."""

    num_bytes: int | None
    """Of its tensors; None where it has none."""
    has_float32: bool
    """Whether most of them are float32."""

    @classmethod
    def of(cls, batch: Any) -> Self:
        """Look at a batch; nothing of it is kept."""
        sizes = [(each.dtype, each.numel() * each.element_size()) for each in tensors(batch)]
        whole = sum(size for _, size in sizes)
        floats = sum(size for kind, size in sizes if kind == torch.float32)
        return cls(num_bytes=whole if sizes else None, has_float32=2 * floats > whole)


def facts_of(loader: Any) -> LoaderFacts:
    """Return what is known of anything that can be iterated."""
    if isinstance(loader, ResumableLoader):
        return LoaderFacts(name=type(loader).__name__, kind="headrace")
    if not isinstance(loader, DataLoader):
        return LoaderFacts(name=type(loader).__name__)
    context = loader.multiprocessing_context
    start = context.get_start_method() if context is not None else None
    return LoaderFacts(
        name=type(loader).__name__,
        kind="DataLoader",
        dataset=type(loader.dataset).__name__,
        batch_size=loader.batch_size,
        workers=loader.num_workers,
        prefetch_factor=loader.prefetch_factor if loader.num_workers else None,
        has_persistent_workers=bool(loader.persistent_workers),
        configuration=(
            ("loader", type(loader).__name__),
            ("dataset", type(loader.dataset).__name__),
            ("batch_size", loader.batch_size),
            ("num_workers", loader.num_workers),
            ("prefetch_factor", loader.prefetch_factor),
            ("persistent_workers", bool(loader.persistent_workers)),
            ("pin_memory", bool(loader.pin_memory)),
            ("multiprocessing_context", start),
        ),
    )


def tensors(batch: Any, depth: int = _DEPTH) -> Iterator[torch.Tensor]:
    """Yield the tensors of a batch, however it is nested; of long lists, those among the first."""
    if isinstance(batch, torch.Tensor):
        yield batch
    elif depth:
        for value in islice(_parts(batch), _WIDTH):
            yield from tensors(value, depth - 1)


def _parts(batch: Any) -> Iterable[Any]:
    if isinstance(batch, Mapping):
        return batch.values()
    if isinstance(batch, list | tuple):
        return batch
    if is_dataclass(batch):
        return (getattr(batch, field.name) for field in fields(batch))
    return getattr(batch, "__dict__", {}).values()


def samples_in(batch: Any) -> int | None:
    """Return the length of the first tensor of a batch; None where there is none."""
    first = next(tensors(batch), None)
    return len(first) if first is not None and first.ndim else None
