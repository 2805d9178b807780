"""Records of every loop in a process, over DataLoaders and headrace's loaders."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from torch.utils.data import DataLoader

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
        if not self._recorders:
            OBSERVED.__enter__()  # to the end of the process
        place = find_place(sys._getframe(1))
        site = LoopSite(place.location if place else "?", describe_loader(loader))
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


def record_loader(loader: Any, iterate: Callable[[Any], Any]) -> Any:
    """Return the iterator that `iterate` returns for `loader`, recorded."""
    recorder = LOOPS.add(loader)
    if isinstance(loader, DataLoader):
        return record_iterator(loader, lambda: iterate(loader), recorder)
    return record_iterable(loader, recorder, iterate)
