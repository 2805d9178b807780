"""Hooks into a DataLoader: its properties, its iterators, its workers and its queue."""

import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from torch.utils.data import DataLoader, IterableDataset, Subset, dataloader

from headrace.instrumentation.loop_recorder import LoopRecorder
from headrace.instrumentation.step_parts import INNER_LOADER, PARTS
from headrace.instrumentation.timed_worker import IN_LOOP, TimedBatch, TimedFetcher, TimedStart

if TYPE_CHECKING:
    from headrace.loaders.planned_loader import DecodingFacts


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
    collate: str | None = None
    batch_size: int | None = None
    workers: int | None = None
    prefetch_factor: int | None = None
    has_persistent_workers: bool = False
    configuration: tuple[tuple[str, str | int | bool | None], ...] = ()
    """Arguments of the loader as (name, value)."""


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
        collate=_locate_collate(loader.collate_fn),
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


def _locate_collate(function: Any) -> str | None:
    """Return the first line of a collate function as `train.py:9`; `default`: that of PyTorch."""
    while isinstance(function, partial):
        function = function.func
    if str(getattr(function, "__module__", "")).startswith("torch."):
        return "default"
    if not hasattr(function, "__code__"):
        function = getattr(function, "__call__", None)  # noqa: B004 (an object that is called)
    code = getattr(function, "__code__", None)
    return f"{Path(code.co_filename).name}:{code.co_firstlineno}" if code else None


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


Batch = TypeVar("Batch")


def record_iterable(
    loader: Iterable[Batch], recorder: LoopRecorder, iterate: Callable[[Any], Any] = iter
) -> Iterator[Batch]:
    """Yield the batches of any iterable; record each request, each batch and the end.

    Args:
        loader: The iterable.
        recorder: Recorder of the loop.
        iterate: Returns an iterator of `loader`.
    """
    recorder.start_epoch()
    epoch, batches = recorder.epoch, iterate(loader)
    recorder.decoding = partial(_describe_decoding, loader)
    try:
        while True:
            recorder.request()
            try:
                batch = PARTS.call(INNER_LOADER, next, batches)
            except StopIteration:
                recorder.end_epoch()
                return
            recorder.receive(batch)
            yield batch
    finally:
        recorder.leave(epoch)
        facts = _describe_decoding(loader)  # so that the recorder does not keep the loader alive
        recorder.decoding = lambda: facts


def _describe_decoding(loader: Any) -> "DecodingFacts | None":
    if not is_of_headrace(loader):
        return None
    from headrace.loaders.planned_loader import describe_decoding

    return describe_decoding(loader)


@contextmanager
def hook_loader(loader: DataLoader[Any], recorder: LoopRecorder) -> Iterator[None]:
    """Record every iteration of `loader` that starts inside the block.

    Batches, their order and all random draws stay the same. Workers that outlive the block continue
    to time their batches, at a cost of some microseconds; the loop gets plain batches.
    """
    create: Callable[[], Any] = loader._get_iterator
    # Not setattr, because a subclass may define `__setattr__`.
    loader.__dict__["_get_iterator"] = lambda: record_iterator(loader, create, recorder)
    try:
        yield
    finally:
        del loader.__dict__["_get_iterator"]


def record_iterator(
    loader: DataLoader[Any], create: Callable[[], Any], recorder: LoopRecorder
) -> Any:
    """Return the iterator of `loader` from `create`, with its requests recorded by `recorder`."""
    recorder.start_epoch()
    worker_init_fn = loader.worker_init_fn
    if loader.num_workers and not isinstance(worker_init_fn, TimedStart):
        loader.worker_init_fn = TimedStart(worker_init_fn)
    try:
        iterator = create()
    finally:
        loader.worker_init_fn = worker_init_fn
    fetcher = getattr(iterator, "_dataset_fetcher", None)
    if fetcher is not None and not isinstance(fetcher, TimedFetcher):
        iterator._dataset_fetcher = TimedFetcher(fetcher, IN_LOOP)
    if hasattr(iterator, "_next_data"):
        iterator._next_data = _NextData(iterator, (*_recorders(iterator), recorder))
        weakref.finalize(iterator, recorder.leave, recorder.epoch).atexit = False
    return iterator


def is_recorded(iterator: Any, recorder: LoopRecorder) -> bool:
    """Return whether `recorder` records the requests to `iterator`, now or later.

    False for persistent workers that started before the block.
    """
    if not isinstance(iterator, dataloader._BaseDataLoaderIter):
        return True  # a generator of a subclass, which creates its iterator at the first request
    return recorder in _recorders(iterator)


def _recorders(iterator: Any) -> tuple[LoopRecorder, ...]:
    """Return the recorders of `iterator`: that of a profiled script, and of a block inside it."""
    return getattr(vars(iterator).get("_next_data"), "recorders", ())


def _count_ready_batches(iterator: Any) -> int | None:
    """Return the number of batches that are ready, in any order.

    None: not known, because there are no workers, or on macOS.
    """
    if not getattr(iterator, "_num_workers", 0):
        return None
    try:
        queued = iterator._data_queue.qsize()
        reordered = sum(len(entry) == 2 for entry in list(iterator._task_info.values()))
    except (AttributeError, NotImplementedError):
        return None
    return int(queued) + reordered


class _NextData:
    """Replacement of `iterator._next_data`.

    Its reference to the iterator is weak, so that the workers end with the loop's last reference.
    """

    def __init__(self, iterator: Any, recorders: tuple[LoopRecorder, ...]) -> None:
        self.recorders = recorders
        self._iterator, self._next_data = weakref.ref(iterator), type(iterator)._next_data

    def __call__(self) -> Any:
        iterator = self._iterator()
        for recorder in self.recorders:
            if getattr(iterator, "_num_yielded", None) == 0:
                recorder.start_epoch()  # another epoch of persistent workers
            recorder.request(_count_ready_batches(iterator))
        try:
            batch = PARTS.call(INNER_LOADER, self._next_data, iterator)
        except StopIteration:
            for recorder in self.recorders:
                recorder.end_epoch()
            raise
        received = batch if isinstance(batch, TimedBatch) else (batch,)
        for recorder in self.recorders:
            recorder.receive(*received)
        return received[0]
