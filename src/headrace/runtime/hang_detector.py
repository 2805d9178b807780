"""Hangs: a watchdog that ends a process, and a detector that names the worker thread."""

import faulthandler
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Generic, TypeVar

from headrace.errors import StageError
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.queue import BoundedQueue, Closed

_DUMP_START: Final = "Timeout ("
"""Start of faulthandler's output when it ends a process."""


def arm_watchdog(seconds: float) -> None:
    """End this process after `seconds`, unless the watchdog is armed again or disarmed before.

    It writes the tracebacks of all threads to standard error and exits with code 1. It runs in a
    thread of the interpreter without any lock, so it also ends code that never returns.
    """
    faulthandler.dump_traceback_later(seconds, exit=True)


def disarm_watchdog() -> None:
    """Stop the watchdog."""
    faulthandler.cancel_dump_traceback_later()


def has_stalled(tail: str) -> bool:
    """Return whether the watchdog ended a process, by the tail of its standard error."""
    return _DUMP_START in tail


_ABANDON_SHARE = 0.5
"""When a worker hangs, other workers that are busy for this share of `stall_seconds` are abandoned
too: a dead mount, for example, stalls several files."""

Item = TypeVar("Item")
T = TypeVar("T")


class HangDetector(Generic[Item]):
    """Records when each worker started its item, and reports a worker that hangs."""

    def __init__(
        self,
        stall_seconds: float | None,
        describe: Callable[[Item], str],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Watch no worker yet; without `stall_seconds` no worker counts as hanging."""
        self.stall_seconds = stall_seconds
        """Seconds without an output after which a worker counts as hanging."""
        self._describe = describe
        self._clock = clock
        self._since: dict[str, tuple[int, Item]] = {}
        self.abandon: Callable[[str], None] = lambda name: None
        """Called with the name of each worker to abandon."""

    @contextmanager
    def watch(self, name: str, item: Item) -> Iterator[None]:
        """Record that a worker works on an item inside the block."""
        self.start(name, item)
        try:
            yield
        finally:
            self.stop(name)

    def start(self, name: str, item: Item) -> None:
        """Record that a worker starts its next output."""
        if self.stall_seconds is not None:
            self._since[name] = self._clock.now_ns(), item

    def stop(self, name: str) -> None:
        """Record that a worker waits for other threads, or is done."""
        self._since.pop(name, None)

    def iterate(self, queue: BoundedQueue[T]) -> Iterator[T]:
        """Yield the items of a queue until it is closed.

        Raises:
            StageError: the queue stays empty, and a worker hangs.
        """
        while True:
            try:
                yield queue.get(self.stall_seconds)
            except Closed:
                return
            except TimeoutError:
                self._check()

    def _check(self) -> None:
        now_ns, limit = self._clock.now_ns(), self.stall_seconds or 0.0
        working = [
            ((now_ns - since_ns) / 1e9, name, item)
            for name, (since_ns, item) in tuple(self._since.items())
        ]
        if not working:
            return
        seconds, name, item = max(working, key=lambda worker: worker[0])
        if seconds < limit:
            return
        for other_seconds, other, _ in working:
            if other_seconds >= limit * _ABANDON_SHARE:
                self.abandon(other)
        raise StageError(
            f"worker {name} has worked on {self._describe(item)} for {seconds:.0f} s without a "
            "result; check that its file can be read, or allow more time",
            stage=name,
            item=item,
        )
