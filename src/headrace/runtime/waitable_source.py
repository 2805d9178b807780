"""Sources that wait: waits are counted separately from work, and can be ended."""

import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from headrace.errors import ConfigError
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.queue import BoundedQueue, Cancelled
from headrace.units import one_of


class Waiter:
    """Waits for a moment or a condition; counts the time, and can be woken.

    `waiter.until(moment_ns)` paces a source; `waiter.wait_for(lambda: packets)` waits for data that
    another thread adds before it calls `notify()`. One thread waits at a time; any thread may
    notify or wake it.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        """Start without a wait; `clock` defines the moments."""
        self.clock = clock
        self.resumed_ns = 0
        """Moment of the end of the last wait; 0 before the first one."""
        self._waited_ns = 0
        self._since_ns: int | None = None
        self._is_woken = False
        # Re-entrant for the same reason as the lock of BoundedQueue.
        self._changed = threading.Condition(threading.RLock())

    @property
    def waited_ns(self) -> int:
        """Nanoseconds of all waits so far, including one in progress."""
        with self._changed:
            in_progress = 0 if self._since_ns is None else self.clock.now_ns() - self._since_ns
            return self._waited_ns + in_progress

    @property
    def is_woken(self) -> bool:
        """Whether it is woken: the thread should end, even if it does not wait now."""
        return self._is_woken

    def until(self, moment_ns: int) -> None:
        """Wait until `clock.now_ns()` is `moment_ns`; return at once if it is past.

        Raises:
            Cancelled: woken, before or while waiting.
        """
        self.wait_for(lambda: False, until_ns=moment_ns)

    def pause(self, seconds: float) -> None:
        """Wait for `seconds`.

        Raises:
            Cancelled: woken, before or while waiting.
        """
        self.until(self.clock.now_ns() + round(seconds * 1e9))

    def wait_for(self, is_ready: Callable[[], bool], *, until_ns: int | None = None) -> bool:
        """Wait until a condition holds; return False if the time is over before.

        Args:
            is_ready: The condition; called under the lock of `notify`, after each notification.
            until_ns: Moment of `clock.now_ns()` that ends the wait; None: no limit.

        Raises:
            Cancelled: woken, before or while waiting.
        """
        with self._changed:
            if self._must_wait(is_ready, until_ns):
                self._since_ns = self.clock.now_ns()
                try:
                    self._wait(is_ready, until_ns)
                finally:
                    self.resumed_ns = self.clock.now_ns()
                    self._waited_ns += self.resumed_ns - self._since_ns
                    self._since_ns = None
            if self._is_woken:
                raise Cancelled
            return is_ready()

    def notify(self) -> None:
        """Let the waiting thread check its condition."""
        with self._changed:
            self._changed.notify_all()

    def wake(self) -> None:
        """End the wait in progress, and all later ones."""
        with self._changed:
            self._is_woken = True
            self._changed.notify_all()

    def _must_wait(self, is_ready: Callable[[], bool], until_ns: int | None) -> bool:
        if self._is_woken or is_ready():
            return False
        return until_ns is None or self.clock.now_ns() < until_ns

    def _wait(self, is_ready: Callable[[], bool], until_ns: int | None) -> None:
        while self._must_wait(is_ready, until_ns):
            if until_ns is None:
                self._changed.wait()
            else:
                self.clock.wait_until(self._changed, until_ns)


T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class WaitableSource(Generic[T]):
    """A source that waits for its pace or for a network, with a waiter."""

    read: Callable[[Waiter], Iterable[T]]
    """Returns the values, best as a generator; called, read and closed in one thread, once per run.
    Waits with the waiter count as starved, not as busy, and end with the run: then the waiter
    raises Cancelled, which must propagate."""


@dataclass(frozen=True, kw_only=True)
class MergedSource:
    """Several sources as one, in the order of arrival; items have the source's index.

    Each source is read in its own thread. The merged source ends when all sources have ended.
    """

    feeds: Sequence[WaitableSource[Any] | Iterable[Any]]
    """The sources; an item's `source` is an index into them."""
    on_error: Literal["raise", "end"] = "raise"
    """Policy for a failed source: end the run; or end only that source, with the error in a dropped
    item with the cause "source failed"."""

    def __post_init__(self) -> None:
        if not self.feeds:
            raise ConfigError("feeds must be one source or more, got none")
        one_of(("raise", "end"), on_error=self.on_error)


AnySource = WaitableSource[Any] | MergedSource | Iterable[Any]


def merged(source: AnySource) -> MergedSource:
    """Return any source as a merged one."""
    return source if isinstance(source, MergedSource) else MergedSource(feeds=(source,))


def values_of(feed: WaitableSource[T] | Iterable[T], waiter: Waiter) -> Generator[T, None, None]:
    """Yield a source's values; closing this closes it, and `next` raises its exceptions."""
    yield from feed.read(waiter) if isinstance(feed, WaitableSource) else feed


class ReaderThread(Generic[T]):
    """Thread for uninterruptible reads; its consumer waits with a waiter and can be woken.

    It never waits for the consumer: a value without room replaces the oldest, so that a server's
    buffers stay empty. After `stop` the thread ends after the read in progress. It is not joined,
    so reads must have a time limit.
    """

    def __init__(
        self,
        name: str,
        read: Callable[[Waiter], Generator[T, None, None]],
        waiter: Waiter,
        *,
        keep: int,
        instead: Callable[[T], T | None],
    ) -> None:
        """Start the thread "headrace-<name>".

        Args:
            name: Name of the thread.
            read: Returns the values; called, run and closed in the thread. `stop` ends waits with
                the given waiter.
            waiter: The consumer's waiter.
            keep: Maximum number of waiting values.
            instead: Returns the replacement of a value, if it is dropped; None for a small value
                that is never dropped.
        """
        self.error: BaseException | None = None
        """Exception of `read`; None while it runs, and after its normal end."""
        self._read = read
        self._waiter = waiter
        self._instead = instead
        self._own_waiter = Waiter(waiter.clock)
        self._is_over = False
        self._queue: BoundedQueue[T] = BoundedQueue(
            keep, name, clock=waiter.clock, overflow="drop_oldest"
        )
        self._thread = threading.Thread(target=self._run, name=f"headrace-{name}", daemon=True)
        self._thread.start()

    def get(self, until_ns: int | None = None) -> T:
        """Return the oldest value; wait until there is one.

        Raises:
            TimeoutError: there is no value until `until_ns`.
            Closed: `read` has ended and all values were taken; see `error`.
            Cancelled: the waiter is woken.
        """
        if not self._waiter.wait_for(self._is_ready, until_ns=until_ns):
            raise TimeoutError
        return self._queue.get()

    def stop(self) -> None:
        """Let the thread end after the read in progress; return at once."""
        self._own_waiter.wake()
        self._queue.cancel()

    def _is_ready(self) -> bool:
        return self._is_over or not self._queue.is_empty()

    def _run(self) -> None:
        try:
            with suppress(Cancelled), closing(self._read(self._own_waiter)) as values:
                for value in values:
                    replacement = self._instead(value)
                    self._queue.put(
                        value, replacement=replacement, takes_room=replacement is not None
                    )
                    self._waiter.notify()
        except BaseException as error:  # noqa: BLE001 - for the consumer's thread
            self.error = error
        finally:
            self._is_over = True
            self._queue.close()
            self._waiter.notify()
