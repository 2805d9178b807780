"""Where a source waits: apart from its work, and so that the wait can be ended."""

import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from headrace.errors import ConfigError
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.queue import BoundedQueue, Cancelled


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


T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class WaitableSource(Generic[T]):
    """A source that waits, for a pace or for a network, by the waiter it is given."""

    read: Callable[[Waiter], Iterable[T]]
    """Best a generator: called, read and closed in a thread of its own, once in each run. What it
    waits with the waiter counts as starved, not as busy, and ends when the run does: then the
    waiter raises, which must go through."""


@dataclass(frozen=True, kw_only=True)
class MergedSource:
    """Several sources as one flow, in the order their values come; an item says which it is from.

    Each is read in a thread of its own. The flow ends when all have ended.
    """

    feeds: Sequence[WaitableSource[Any] | Iterable[Any]]
    """An item's `source` counts them from 0."""
    on_error: Literal["raise", "end"] = "raise"
    """What a source that fails does: the run fails; or only that source is over, and its error
    comes as an item that was dropped, with the cause "source failed"."""

    def __post_init__(self) -> None:
        if not self.feeds:
            raise ConfigError("one source or more are needed to merge them, got none")
        if self.on_error not in ("raise", "end"):
            raise ConfigError(f"on_error must be 'raise' or 'end', got {self.on_error!r}")


AnySource = WaitableSource[Any] | MergedSource | Iterable[Any]


def merged(source: AnySource) -> MergedSource:
    """Return any source as the feeds it consists of."""
    return source if isinstance(source, MergedSource) else MergedSource(feeds=(source,))


def values_of(feed: WaitableSource[T] | Iterable[T], waiter: Waiter) -> Generator[T, None, None]:
    """Yield its values; closing this closes it. All it raises comes from the first `next` on."""
    yield from feed.read(waiter) if isinstance(feed, WaitableSource) else feed


class ReaderThread(Generic[T]):
    """Reads in a thread of its own, so that who takes from it waits by a waiter and can be woken.

    It never waits for who takes: what finds no room takes the place of the oldest, so that a
    server's buffers stay empty. Once given up it ends when the read in progress comes back: it is
    not waited for, so whatever is read must have a time limit.
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
        """Starts the thread "headrace-<name>".

        Args:
            name: Of the thread.
            read: Called, run and closed in the thread. What it waits with its own waiter ends when
                the reader is given up.
            waiter: Of who takes.
            keep: How many values wait at most.
            instead: What stays in the place of a value that found no room; None for a value that
                is small and always comes through.
        """
        self.error: BaseException | None = None
        """What ended the reading; None while it goes on, and at its plain end."""
        self._read = read
        self._waiter = waiter
        self._instead = instead
        self._own = Waiter(waiter.clock)
        self._is_over = False
        self._queue: BoundedQueue[T] = BoundedQueue(
            keep, name, clock=waiter.clock, overflow="drop_oldest"
        )
        self._thread = threading.Thread(target=self._run, name=f"headrace-{name}", daemon=True)
        self._thread.start()

    def take(self, until_ns: int | None = None) -> T:
        """Returns the oldest value that is there, or that comes.

        Raises:
            TimeoutError: the moment came first.
            Closed: the reading is over, and all was taken; see `error`.
            Cancelled: the waiter was woken.
        """
        if not self._waiter.wait_for(self._has_news, until_ns=until_ns):
            raise TimeoutError
        return self._queue.get()

    def give_up(self) -> None:
        """Has the thread end after the read in progress; comes back at once."""
        self._own.wake()
        self._queue.cancel()

    def _has_news(self) -> bool:
        return self._is_over or not self._queue.is_empty()

    def _run(self) -> None:
        try:
            with suppress(Cancelled), closing(self._read(self._own)) as values:
                for value in values:
                    instead = self._instead(value)
                    self._queue.put(value, instead=instead, takes_room=instead is not None)
                    self._waiter.notify()
        except BaseException as error:  # noqa: BLE001 - who takes is told in its own thread
            self.error = error
        finally:
            self._is_over = True
            self._queue.close()
            self._waiter.notify()
