"""Watching a DataLoader from inside: its iterators, its workers, what lies ready in its queue."""

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from torch.utils.data import DataLoader, dataloader

from headrace.instrumentation.loop_recorder import LoopRecorder
from headrace.instrumentation.timed_worker import IN_LOOP, TimedBatch, TimedFetcher, TimedStart

Batch = TypeVar("Batch")


def timed(loader: Iterable[Batch], watch: LoopRecorder) -> Iterator[Batch]:
    """Yield what `loader` gives, and tell `watch` of each request, batch and end."""
    watch.begins()
    batches = iter(loader)
    while True:
        watch.asks()
        try:
            batch = next(batches)
        except StopIteration:
            watch.ends()
            return
        watch.gets(batch)
        yield batch


Make = Callable[[], Any]
"""Makes an iterator of a DataLoader."""


@contextmanager
def hooked(loader: DataLoader[Any], watch: LoopRecorder) -> Iterator[None]:
    """Let `watch` hear of every iteration of `loader` that begins inside.

    Batches, their order and all random draws are as without it. Workers that live on after the
    block go on to time their batches, which costs some microseconds; the loop gets the plain ones.
    """
    own: Make = loader._get_iterator
    # A subclass may define `__setattr__`; this is nobody's attribute but ours.
    loader.__dict__["_get_iterator"] = lambda: watched_iterator(loader, own, watch)
    try:
        yield
    finally:
        del loader.__dict__["_get_iterator"]


def watched_iterator(loader: DataLoader[Any], make: Make, watch: LoopRecorder) -> Any:
    """Return the iterator that `make` gives for `loader`, with its requests told to `watch`."""
    watch.begins()
    own = loader.worker_init_fn
    if loader.num_workers:
        loader.worker_init_fn = TimedStart(own)
    try:
        iterator = make()
    finally:
        loader.worker_init_fn = own
    if hasattr(iterator, "_dataset_fetcher"):
        iterator._dataset_fetcher = TimedFetcher(iterator._dataset_fetcher, IN_LOOP)
    if hasattr(iterator, "_next_data"):
        iterator._next_data = _NextData(iterator, watch)
    return iterator


def is_told_to(iterator: Any, watch: LoopRecorder) -> bool:
    """Return whether `watch` hears of what `iterator` is asked for, now or later.

    It does not where workers live on that were started before the block.
    """
    if not isinstance(iterator, dataloader._BaseDataLoaderIter):
        return True  # of a subclass, which asks for its iterator when it is itself asked
    return getattr(vars(iterator).get("_next_data"), "watch", None) is watch


def ready_batches(iterator: Any) -> int | None:
    """Return how many batches lie ready for the loop; None where that is not seen.

    Those that came before their turn count too.
    """
    try:
        waiting = iterator._data_queue.qsize()
        held = sum(len(entry) == 2 for entry in list(iterator._task_info.values()))
    except (AttributeError, NotImplementedError):  # no workers; macOS counts no queue
        return None
    return int(waiting) + held


class _NextData:
    """Stands for `iterator._next_data`.

    It holds the iterator weakly: with the last of the loop's own references its workers end.
    """

    def __init__(self, iterator: Any, watch: LoopRecorder) -> None:
        self.watch = watch
        self._iterator, self._own = weakref.ref(iterator), type(iterator)._next_data

    def __call__(self) -> Any:
        iterator, watch = self._iterator(), self.watch
        if getattr(iterator, "_num_yielded", None) == 0:
            watch.begins()  # workers that live on begin a further epoch
        watch.asks(ready_batches(iterator))
        try:
            data = self._own(iterator)
        except StopIteration:
            watch.ends()
            raise
        if isinstance(data, TimedBatch):
            watch.gets(data.batch, data)
            return data.batch
        watch.gets(data)
        return data
