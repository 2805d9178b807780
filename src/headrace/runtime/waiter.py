"""Where a source waits: apart from its work, and so that the wait can be ended."""

import threading
from collections.abc import Callable

from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.queue import Cancelled


class Waiter:
    """Waits for a moment or for something to be there; counts the time, and can be woken.

    `waiter.until(moment_ns)` paces a source, `waiter.wait_for(lambda: packets)` waits for what
    another thread brings and tells by `notify()`. One thread waits at a time; any may notify or
    wake it.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        """Nobody waits yet; `clock` says when a moment has come."""
        self.clock = clock
        self.resumed_ns = 0
        """When the last wait ended; 0 before the first one."""
        self._waited_ns = 0
        self._since_ns: int | None = None
        self._is_woken = False
        # Re-entrant for the same reason as the lock of BoundedQueue.
        self._changed = threading.Condition(threading.RLock())

    @property
    def waited_ns(self) -> int:
        """All waits so far, one in progress included."""
        with self._changed:
            in_progress = 0 if self._since_ns is None else self.clock.now_ns() - self._since_ns
            return self._waited_ns + in_progress

    @property
    def is_woken(self) -> bool:
        """Somebody gave up what waits here: time to end, also for who does not wait now."""
        return self._is_woken

    def until(self, moment_ns: int) -> None:
        """Waits until `clock.now_ns()` is `moment_ns`; not at all when it is past.

        Raises:
            Cancelled: woken, before or while waiting.
        """
        self.wait_for(lambda: False, until_ns=moment_ns)

    def pause(self, seconds: float) -> None:
        """Waits for so long, as before another attempt to connect.

        Raises:
            Cancelled: woken, before or while waiting.
        """
        self.until(self.clock.now_ns() + round(seconds * 1e9))

    def wait_for(self, is_there: Callable[[], bool], *, until_ns: int | None = None) -> bool:
        """Waits until something is there; says whether it is, or False when a moment came first.

        Args:
            is_there: Called under a lock that `notify` takes, as often as there may be news.
            until_ns: Of `clock.now_ns()`; None waits for ever.

        Raises:
            Cancelled: woken, before or while waiting.
        """
        with self._changed:
            if self._must_wait(is_there, until_ns):
                self._since_ns = self.clock.now_ns()
                try:
                    self._wait(is_there, until_ns)
                finally:
                    self.resumed_ns = self.clock.now_ns()
                    self._waited_ns += self.resumed_ns - self._since_ns
                    self._since_ns = None
            if self._is_woken:
                raise Cancelled
            return is_there()

    def notify(self) -> None:
        """What is waited for may be there: look."""
        with self._changed:
            self._changed.notify_all()

    def wake(self) -> None:
        """Ends the wait in progress, and every one to come."""
        with self._changed:
            self._is_woken = True
            self._changed.notify_all()

    def _must_wait(self, is_there: Callable[[], bool], until_ns: int | None) -> bool:
        if self._is_woken or is_there():
            return False
        return until_ns is None or self.clock.now_ns() < until_ns

    def _wait(self, is_there: Callable[[], bool], until_ns: int | None) -> None:
        while self._must_wait(is_there, until_ns):
            if until_ns is None:
                self._changed.wait()
            else:
                self.clock.wait_until(self._changed, until_ns)
