"""Hooks into a DataLoader: its iterators, its workers and its queue."""

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from torch.utils.data import DataLoader, dataloader

from headrace.instrumentation.loader_info import is_of_headrace
from headrace.instrumentation.loop_recorder import LoopRecorder
from headrace.instrumentation.step_parts import INNER_LOADER, PARTS
from headrace.instrumentation.timed_worker import IN_LOOP, TimedBatch, TimedFetcher, TimedStart

if TYPE_CHECKING:
    from headrace.loaders.planned_loader import DecodingFacts

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
