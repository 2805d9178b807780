"""Properties of a loader and of a batch: type, arguments, sizes."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from itertools import islice
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final, Literal, Self

import torch
from torch.utils.data import DataLoader, IterableDataset, Subset

_MAX_DEPTH: Final = 4
"""Max levels of a nested batch to search for tensors."""
_MAX_WIDTH: Final = 64
"""Max entries of a list to search for tensors."""
_OPTIONS = ("batch_size", "num_workers", "prefetch_factor", "persistent_workers", "pin_memory")
"""Arguments of a DataLoader that are recorded."""
_DECODERS: Final = {
    "av": ("PyAV", "open"),
    "cv2": ("OpenCV", "VideoCapture"),
    "decord": ("decord", "VideoReader"),
    "torchcodec": ("torchcodec", "VideoDecoder"),
    "torchvision": ("torchvision", "read_video"),
}
"""Package → its name, and the function that opens a video."""
_MAX_FUNCTIONS: Final = 200
"""Max functions of a dataset to search for a decoder."""


@dataclass(frozen=True, kw_only=True)
class LoaderInfo:
    """Properties of a loader before its first batch; fields as in `LoaderRecord`."""

    name: str
    kind: Literal["DataLoader", "headrace", "other"] = "other"
    dataset: str | None = None
    decoder: str | None = None
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
    dataset: Any = loader.dataset
    while isinstance(dataset, Subset):
        dataset = dataset.dataset
    dataset_name = type(loader.dataset).__name__
    kind: object = type(dataset)  # mypy takes `type[Any]` for unhashable
    return LoaderInfo(
        name=name,
        kind="DataLoader",
        dataset=dataset_name,
        decoder=_find_decoder(kind),
        batch_size=loader.batch_size,
        workers=loader.num_workers,
        prefetch_factor=loader.prefetch_factor if loader.num_workers else None,
        has_persistent_workers=bool(loader.persistent_workers),
        configuration=(
            ("loader", name),
            ("dataset", dataset_name),
            *((("is_iterable", True),) if isinstance(loader.dataset, IterableDataset) else ()),
            *((option, getattr(loader, option)) for option in _OPTIONS),
            ("multiprocessing_context", None if context is None else context.get_start_method()),
        ),
    )


@cache
def _find_decoder(dataset: type) -> str | None:
    """Return the library with which the code of a dataset opens videos; None: not found.

    Searches the methods of the dataset and the functions that they call; runs none of them.
    """
    members = [member for kind in dataset.__mro__ for member in vars(kind).values()]
    functions = [member for member in members if isinstance(member, FunctionType)]
    for function in islice(functions, _MAX_FUNCTIONS):  # grows in the loop
        if str(function.__module__).startswith(("torch.", "headrace.")):
            continue
        names = _names_in(function.__code__)
        values = [function.__globals__[name] for name in names if name in function.__globals__]
        modules = [*names, *(value.__name__ for value in values if isinstance(value, ModuleType))]
        modules += [str(v.__module__) for v in values if isinstance(v, type | FunctionType)]
        packages = {module.partition(".")[0] for module in modules}
        for package, (library, opener) in _DECODERS.items():
            if package in packages and opener in names:
                return library
        functions += [v for v in values if isinstance(v, FunctionType) and v not in functions]
    return None


def _names_in(code: CodeType) -> set[str]:
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return {*code.co_names}.union(*map(_names_in, inner))


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
