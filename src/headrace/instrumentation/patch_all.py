"""Recorders of all loops of a process, and the changed arguments of one loop's DataLoader."""

import sys
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import torch
from torch.utils.data import DataLoader

from headrace.instrumentation.dataloader_hook import (
    LoaderInfo,
    describe_loader,
    record_iterable,
    record_iterator,
)
from headrace.instrumentation.loop_recorder import LoopRecorder, merge_recorders
from headrace.instrumentation.loop_sampler import OBSERVED, find_place
from headrace.profiling.resource_usage import ProcessorShare
from headrace.runtime.clock import SYSTEM_CLOCK

LoaderChange = Mapping[str, Any]
"""`loop`: configuration in the session of the unchanged loop; `options`: changed arguments of its
DataLoader; `words`: the change as text, for the sessions."""
_WITHOUT_WORKERS: Final[Mapping[str, object]] = {
    "prefetch_factor": None,
    "persistent_workers": False,
    "timeout": 0,
}
"""Arguments that a DataLoader without workers must have."""
_PREFETCH: Final = 2
"""Default prefetch factor of a DataLoader with workers."""


@dataclass(frozen=True)
class LoopSite:
    """Line of the user's code, and the properties of the loader that it iterates."""

    location: str
    """`train.py:42`."""
    loader: LoaderInfo


class LoopRegistry:
    """All loops of this process; each iteration has its own recorder."""

    def __init__(self) -> None:
        """Start without loops."""
        self._recorders: dict[LoopSite, list[LoopRecorder]] = {}
        self.start_ns = SYSTEM_CLOCK.now_ns()

    def add(self, loader: Any) -> LoopRecorder:
        """Return the recorder of an iteration of `loader` that is about to start."""
        recorder = LoopRecorder()
        site = LoopSite(_user_line(), describe_loader(loader))
        self._recorders.setdefault(site, []).append(recorder)
        return recorder

    def loops(self) -> list[tuple[LoopSite, LoopRecorder]]:
        """Return each loop with its merged recorder, the longest first."""
        loops = [(site, merge_recorders(parts)) for site, parts in self._recorders.items()]
        return sorted(loops, key=lambda loop: -loop[1].seconds)


LOOPS: Final = LoopRegistry()
"""Loops of this process."""
SHARE: Final = ProcessorShare()
"""CPU share of other programs since the import of this module."""


@cache
def observe_steps() -> None:
    """Start the hooks and the sampler, at the first call; they run to the end of the process."""
    OBSERVED.__enter__()


def record_loader(
    loader: Any, iterate: Callable[[Any], Any], change: LoaderChange | None = None
) -> Any:
    """Return the iterator that `iterate` returns for `loader`, recorded.

    Args:
        loader: Loader, before its iteration.
        iterate: Returns an iterator of the loader.
        change: Change to make first; see `change_loader`.
    """
    options: Mapping[str, object] = {}
    if change is not None and change_loader(loader, _user_line(), change):
        options = change["options"]
    recorder = LOOPS.add(loader)
    if not isinstance(loader, DataLoader):
        return record_iterable(loader, recorder, iterate)
    iterator = record_iterator(loader, lambda: iterate(loader), recorder)
    if "persistent_workers" in options:
        keep_iterator(loader, iterator)
    return iterator


def _user_line() -> str:
    """Return the innermost line of the user's code, which iterates the loader."""
    place = find_place(sys._getframe(1))
    return place.location if place else "?"


def change_loader(loader: Any, location: str, change: LoaderChange) -> bool:
    """Set the changed arguments if `loader` is that of the loop to change; return whether it is.

    Dataset, sampler and collate function stay the same, and so do the batches and their order. Only
    random draws inside the dataset differ, because they depend on the process that loads the batch.

    Args:
        loader: Any loader, before its iteration.
        location: Line that iterates it.
        change: Loop and arguments.
    """
    if change["loop"] != {"loop": location, **dict(describe_loader(loader).configuration)}:
        return False
    options = dict(change["options"])
    if options.get("num_workers") == 0:
        options |= _WITHOUT_WORKERS
    elif "num_workers" in options and loader.prefetch_factor is None:
        options["prefetch_factor"] = _PREFETCH
    # setattr fails: a DataLoader does not let persistent_workers change.
    loader.__dict__.update(options)
    return True


def keep_iterator(loader: Any, iterator: Any) -> None:
    """Make a loader use `iterator` in all epochs, for workers that a change made persistent.

    `DataLoader.__iter__` reads `persistent_workers` before the change, so it does not do this.
    """
    loader.__dict__["_iterator"] = iterator
    iterator._reset = _Reset(iterator)


class _Reset:
    """Replacement of `iterator._reset`, which starts another epoch.

    It draws the seed that new workers would get. Without this draw, all later draws would differ,
    including the order of the samples.
    """

    def __init__(self, iterator: Any) -> None:
        self._iterator, self._reset = weakref.ref(iterator), type(iterator)._reset

    def __call__(self, loader: Any) -> None:
        torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
        self._reset(self._iterator(), loader)
