"""Watching workers: which one is at what since when, and which one hangs."""

import faulthandler
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Generic, TypeVar

from headrace.errors import StageError
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.queue import BoundedQueue, Closed

_WORDS: Final = "Timeout ("
"""What the interpreter writes before it ends a process that stalled."""


def end_if_stalled(seconds: float) -> None:
    """End this process unless this, or `may_rest`, is called again within so many seconds.

    It writes to its standard error where it hung, and ends with exit code 1. The watch is a thread
    of the interpreter's own, which needs no lock, so code that never returns is ended too.
    """
    faulthandler.dump_traceback_later(seconds, exit=True)


def may_rest() -> None:
    """Let this process take its time again."""
    faulthandler.cancel_dump_traceback_later()


def has_stalled(tail: str) -> bool:
    """Return whether a process with such an end of its standard error ended itself."""
    return _WORDS in tail


_PROBABLY_STALLED = 0.5
"""Of the time after which a worker hangs: when one does, others so long at work are not waited for
either. What stalls one file, such as a dead mount, stalls others."""

Item = TypeVar("Item")
T = TypeVar("T")


class HangDetector(Generic[Item]):
    """Knows since when each worker has been at its item, and says which one hangs."""

    def __init__(
        self,
        stall_seconds: float | None,
        describe: Callable[[Item], str],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Nobody works yet; None lets a worker be at an item for ever."""
        self.stall_seconds = stall_seconds
        """After which a worker hangs."""
        self._describe = describe
        self._clock = clock
        self._since: dict[str, tuple[int, Item]] = {}
        self.abandon: Callable[[str], None] = lambda name: None
        """What to do with a worker that hangs."""

    @contextmanager
    def at_work(self, name: str, item: Item) -> Iterator[None]:
        """The worker is at an item while the block runs."""
        self.works(name, item)
        try:
            yield
        finally:
            self.rests(name)

    def works(self, name: str, item: Item) -> None:
        """The worker begins with its next output."""
        if self.stall_seconds is not None:
            self._since[name] = self._clock.now_ns(), item

    def rests(self, name: str) -> None:
        """The worker waits for others, or is done."""
        self._since.pop(name, None)

    def taken_from(self, queue: BoundedQueue[T]) -> Iterator[T]:
        """Yield what the queue gives, like the queue itself.

        Raises:
            StageError: nothing comes, and a worker hangs.
        """
        while True:
            try:
                yield queue.get(self.stall_seconds)
            except Closed:
                return
            except TimeoutError:
                self._name_who_hangs()

    def _name_who_hangs(self) -> None:
        now_ns, limit = self._clock.now_ns(), self.stall_seconds or 0.0
        at = {
            name: ((now_ns - since_ns) / 1e9, item)
            for name, (since_ns, item) in tuple(self._since.items())
        }
        stalled = {name: found for name, found in at.items() if found[0] >= limit}
        if not stalled:
            return
        for name, (seconds, _) in at.items():
            if seconds >= limit * _PROBABLY_STALLED:
                self.abandon(name)
        name, (seconds, item) = max(stalled.items(), key=lambda found: found[1][0])
        raise StageError(
            f"worker {name} has been at {self._describe(item)} for {seconds:.0f} s without a "
            "result; see whether its file can be read, or allow more time",
            stage=name,
            item=item,
        )
