"""Watching every loader of a process: all DataLoaders, and the loaders of headrace."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from torch.utils.data import DataLoader

from headrace.instrumentation.dataloader_hook import timed, watched_iterator
from headrace.instrumentation.loader_info import LoaderFacts, facts_of
from headrace.instrumentation.loop_recorder import LoopRecorder, merged
from headrace.profiling.resource_usage import ProcessorShare
from headrace.runtime.clock import SYSTEM_CLOCK

_INSTALLED: Final = ("site-packages", "dist-packages", f"{Path('lib') / 'python'}")
"""Parts of the paths of code that is not the user's own."""
_OF_LOADERS: Final = ("torch.", "headrace.")


@dataclass(frozen=True)
class LoopSite:
    """One place in the user's code that iterates loaders of one kind."""

    where: str
    """`train.py:42`."""
    facts: LoaderFacts


class Loops:
    """All loops of this process: each iteration is watched on its own."""

    def __init__(self) -> None:
        """Watch nothing yet."""
        self._found: dict[LoopSite, list[LoopRecorder]] = {}
        self.began_ns = SYSTEM_CLOCK.now_ns()

    def begin(self, loader: Any) -> LoopRecorder:
        """Return what watches an iteration of `loader` that is about to begin."""
        watch = LoopRecorder()
        self._found.setdefault(LoopSite(_where(), facts_of(loader)), []).append(watch)
        return watch

    def all(self) -> list[tuple[LoopSite, LoopRecorder]]:
        """Return each loop with all that was noted of it, the longest first."""
        found = [(loop, merged(watches)) for loop, watches in self._found.items()]
        return sorted(found, key=lambda each: -each[1].seconds)


LOOPS: Final = Loops()
"""A process is watched as a whole."""
SHARE: Final = ProcessorShare()
"""Of other programs, from now on."""


def iterated(loader: Any, own: Callable[[Any], Any]) -> Any:
    """Return what `own` gives for `loader`: an iterator, which is watched from here on."""
    watch = LOOPS.begin(loader)
    if isinstance(loader, DataLoader):
        return watched_iterator(loader, lambda: own(loader), watch)
    return timed(_Own(loader, own), watch)


@dataclass(frozen=True)
class _Own:
    """A loader as it iterates without us."""

    loader: Any
    iterate: Any

    def __iter__(self) -> Iterator[Any]:
        return iter(self.iterate(self.loader))


def _where() -> str:
    """The line that iterates: the innermost one of the user's own code."""
    frame, outside = sys._getframe(1), None
    while frame is not None:
        module, file = frame.f_globals.get("__name__", ""), frame.f_code.co_filename
        if not module.startswith(_OF_LOADERS):
            outside = outside or frame
            if not any(part in file for part in _INSTALLED) and not file.startswith("<"):
                outside = frame
                break
        frame = frame.f_back  # type: ignore[assignment]
    return f"{Path(outside.f_code.co_filename).name}:{outside.f_lineno}" if outside else "?"
