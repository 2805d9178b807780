"""Records of every loop in a process, over DataLoaders and headrace's loaders."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from torch.utils.data import DataLoader

from headrace.instrumentation.changed_loader import (
    LoaderChange,
    change_loader,
    keep_iterator,
)
from headrace.instrumentation.dataloader_hook import record_iterable, record_iterator
from headrace.instrumentation.loader_info import LoaderInfo, describe_loader
from headrace.instrumentation.loop_recorder import LoopRecorder, merge_recorders
from headrace.instrumentation.loop_sampler import OBSERVED, find_place
from headrace.profiling.resource_usage import ProcessorShare
from headrace.runtime.clock import SYSTEM_CLOCK


@dataclass(frozen=True)
class LoopSite:
    """One line of the user's code that iterates loaders of one kind."""

    location: str
    """`train.py:42`."""
    loader: LoaderInfo


class LoopRegistry:
    """All loops of this process; each iteration has a recorder of its own."""

    def __init__(self) -> None:
        """Record nothing yet."""
        self._recorders: dict[LoopSite, list[LoopRecorder]] = {}
        self.start_ns = SYSTEM_CLOCK.now_ns()

    def add(self, loader: Any) -> LoopRecorder:
        """Return the recorder of an iteration of `loader` that is about to start."""
        recorder = LoopRecorder()
        site = LoopSite(_user_line(), describe_loader(loader))
        self._recorders.setdefault(site, []).append(recorder)
        return recorder

    def loops(self) -> list[tuple[LoopSite, LoopRecorder]]:
        """Return each loop with its record, the longest first."""
        loops = [(site, merge_recorders(parts)) for site, parts in self._recorders.items()]
        return sorted(loops, key=lambda loop: -loop[1].seconds)


LOOPS: Final = LoopRegistry()
"""Loops of this process."""
SHARE: Final = ProcessorShare()
"""CPU share of other programs, from the import of this module on."""


@cache
def observe_steps() -> None:
    """Time the parts of steps and take samples, from the first call to the end of the process."""
    OBSERVED.__enter__()


def record_loader(
    loader: Any, iterate: Callable[[Any], Any], change: LoaderChange | None = None
) -> Any:
    """Return the iterator that `iterate` returns for `loader`, recorded.

    Args:
        loader: Loader that is about to be iterated.
        iterate: Returns its iterator.
        change: Made first; see `change_loader`.
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
    """Return the line that iterates: the innermost line of the user's own code."""
    place = find_place(sys._getframe(1))
    return place.location if place else "?"
