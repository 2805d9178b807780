"""Properties of a loader and of a batch: type, arguments, sizes."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from itertools import islice
from typing import Any, Final, Literal, Self

import torch
from torch.utils.data import DataLoader, IterableDataset

_MAX_DEPTH: Final = 4
"""Max levels of a nested batch to search for tensors."""
_MAX_WIDTH: Final = 64
"""Max entries of a list to search for tensors."""
_OPTIONS = ("batch_size", "num_workers", "prefetch_factor", "persistent_workers", "pin_memory")
"""Arguments of a DataLoader that are recorded."""


@dataclass(frozen=True, kw_only=True)
class LoaderInfo:
    """Properties of a loader before its first batch; fields as in `LoaderRecord`."""

    name: str
    kind: Literal["DataLoader", "headrace", "other"] = "other"
    dataset: str | None = None
    batch_size: int | None = None
    workers: int | None = None
    prefetch_factor: int | None = None
    has_persistent_workers: bool = False
    configuration: tuple[tuple[str, str | int | bool | None], ...] = ()
    """Arguments of the loader as (name, value)."""


@dataclass(frozen=True, kw_only=True)
class BatchInfo:
    """Size of a batch."""

    num_bytes: int | None
    """Bytes of its tensors; None: no tensors found."""
    has_float32: bool
    """Whether more than half of the bytes are float32."""

    @classmethod
    def from_batch(cls, batch: Any) -> Self:
        """Measure a batch; keeps no reference to it."""
        sizes = [
            (tensor.dtype, tensor.numel() * tensor.element_size())
            for tensor in _find_tensors(batch, _MAX_DEPTH)
        ]
        total = sum(size for _, size in sizes)
        float32 = sum(size for dtype, size in sizes if dtype == torch.float32)
        return cls(num_bytes=total if sizes else None, has_float32=2 * float32 > total)


def describe_loader(loader: Any) -> LoaderInfo:
    """Return the properties of any iterable."""
    name = type(loader).__name__
    if is_of_headrace(loader):
        return LoaderInfo(name=name, kind="headrace")
    if not isinstance(loader, DataLoader):
        return LoaderInfo(name=name)
    context = loader.multiprocessing_context
    dataset = type(loader.dataset).__name__
    return LoaderInfo(
        name=name,
        kind="DataLoader",
        dataset=dataset,
        batch_size=loader.batch_size,
        workers=loader.num_workers,
        prefetch_factor=loader.prefetch_factor if loader.num_workers else None,
        has_persistent_workers=bool(loader.persistent_workers),
        configuration=(
            ("loader", name),
            ("dataset", dataset),
            *((("is_iterable", True),) if isinstance(loader.dataset, IterableDataset) else ()),
            *((option, getattr(loader, option)) for option in _OPTIONS),
            ("multiprocessing_context", None if context is None else context.get_start_method()),
        ),
    )


def is_of_headrace(loader: Any) -> bool:
    """Return whether a loader is one of headrace; avoids their import, which takes 0.2 s."""
    resumable = sys.modules.get("headrace.loaders.resumable")
    return resumable is not None and isinstance(loader, resumable.ResumableLoader)


def count_samples(batch: Any) -> int | None:
    """Return the length of the first tensor of a batch; None without tensors."""
    first = next(_find_tensors(batch, _MAX_DEPTH), None)
    return len(first) if first is not None and first.ndim else None


def _find_tensors(batch: Any, depth: int) -> Iterator[torch.Tensor]:
    """Yield the tensors of a nested batch, down to `depth` levels, from the start of each list."""
    if isinstance(batch, torch.Tensor):
        yield batch
    elif depth:
        for value in islice(_list_values(batch), _MAX_WIDTH):
            yield from _find_tensors(value, depth - 1)


def _list_values(batch: Any) -> Iterable[Any]:
    if isinstance(batch, Mapping):
        return batch.values()
    if isinstance(batch, list | tuple):
        return batch
    if is_dataclass(batch):
        return (getattr(batch, field.name) for field in fields(batch))
    return getattr(batch, "__dict__", {}).values()
