"""Synchronization of threads: groups of them, periodic calls, permits, tickets, idle resources."""

import atexit
import threading
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import chain, repeat
from typing import Generic, Protocol, TypeVar

from headrace.errors import ConfigError
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.queue import Cancelled
from headrace.units import check_integers


class CapacityLimiter:
    """Limits the permits in use: `acquire` waits until enough are free.

    Thread-safe. For one thread that acquires and others that release; several waiting threads are
    served in no particular order.
    """

    def __init__(self, capacity: int, *, clock: Clock = SYSTEM_CLOCK) -> None:
        """Create a limiter with `capacity` permits.

        Raises:
            ConfigError: `capacity` is below 1.
        """
        check_integers(1, capacity=capacity)
        self.capacity = capacity
        self.in_use = 0
        """Number of permits in use."""
        self.max_in_use = 0
        """Maximum number of permits ever in use."""
        self._blocked_ns = 0
        self._clock = clock
        self._is_cancelled = False
        # Re-entrant for the same reason as the lock of BoundedQueue.
        self._changed = threading.Condition(threading.RLock())

    @property
    def blocked_seconds(self) -> float:
        """Seconds that `acquire` waited; large if the releasing threads are slow."""
        return self._blocked_ns / 1e9

    def acquire(
        self,
        permits: int,
        is_urgent: Callable[[], bool] = lambda: False,
        *,
        if_urgent: int | None = None,
    ) -> int:
        """Acquire permits; wait until they are free, or until `is_urgent` returns True.

        `is_urgent` is called whenever permits are released. If it returns True, `if_urgent` permits
        are acquired, by default all; they may exceed the capacity. Returns the acquired number.

        Raises:
            ConfigError: `permits` is below 0 or above the capacity.
            Cancelled: the limiter is cancelled, before or while waiting.
        """
        if not 0 <= permits <= self.capacity:
            raise ConfigError(f"permits must be in [0, {self.capacity}], got {permits}")
        with self._changed:
            started_ns = self._clock.now_ns()
            self._changed.wait_for(
                lambda: self._is_cancelled or self._has_free(permits) or is_urgent()
            )
            self._blocked_ns += self._clock.now_ns() - started_ns
            if self._is_cancelled:
                raise Cancelled
            acquired = permits if self._has_free(permits) or if_urgent is None else if_urgent
            self._take(acquired)
            return acquired

    def acquire_nowait(self, permits: int) -> bool:
        """Acquire permits if they are free now; return whether they were."""
        with self._changed:
            is_free = not self._is_cancelled and self._has_free(permits)
            if is_free:
                self._take(permits)
            return is_free

    def release(self, permits: int) -> None:
        """Release permits; a negative number acquires more, without waiting."""
        with self._changed:
            self._take(-permits)
            self._changed.notify_all()

    def cancel(self) -> None:
        """Wake all threads: from now on every `acquire` raises."""
        with self._changed:
            self._is_cancelled = True
            self._changed.notify_all()

    def _has_free(self, permits: int) -> bool:
        return self.in_use + permits <= self.capacity

    def _take(self, permits: int) -> None:
        self.in_use += permits
        self.max_in_use = max(self.max_in_use, self.in_use)


class Sequencer:
    """Tickets in order: `with sequencer.turn(key, number): ...` waits for the previous ticket.

    Tickets of a key count from 0. Thread-safe. Every ticket must be used, or later tickets wait
    forever: assign tickets to threads in ascending order.
    """

    def __init__(self) -> None:
        self._due: defaultdict[Hashable, int] = defaultdict(int)
        self._is_cancelled = False
        self._changed = threading.Condition()

    @contextmanager
    def turn(self, key: Hashable, number: int) -> Iterator[None]:
        """Hold ticket `number` of `key` inside the block; the next one is due at its end.

        Raises:
            Cancelled: the sequencer is cancelled, before or while waiting.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._is_cancelled or self._due[key] == number)
            if self._is_cancelled:
                raise Cancelled
        try:
            yield
        finally:
            with self._changed:
                self._due[key] = number + 1
                self._changed.notify_all()

    def cancel(self) -> None:
        """Wake all threads: from now on every `turn` raises."""
        with self._changed:
            self._is_cancelled = True
            self._changed.notify_all()


class Closable(Protocol):
    """Resource of a pool."""

    def close(self) -> None:
        """Release it."""
        ...


Key = TypeVar("Key", bound=Hashable)
Resource = TypeVar("Resource", bound=Closable)


class ResourcePool(Generic[Key, Resource]):
    """LRU pool of idle resources by key. Thread-safe.

    An acquired resource belongs to one owner until it is released.
    """

    def __init__(self, capacity: int) -> None:
        """Create an empty pool of at most `capacity` idle resources.

        Raises:
            ConfigError: `capacity` is below 1.
        """
        check_integers(1, capacity=capacity)
        self._capacity = capacity
        self._idle: OrderedDict[Key, Resource] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return the number of idle resources."""
        return len(self._idle)

    def acquire(self, key: Key) -> Resource | None:
        """Remove and return the idle resource of `key`; None if there is none."""
        with self._lock:
            return self._idle.pop(key, None)

    def release(self, key: Key, resource: Resource) -> None:
        """Add an idle resource; close one of the same key, and the oldest beyond the capacity."""
        with self._lock:
            closing = [self._idle.pop(key)] if key in self._idle else []
            self._idle[key] = resource
            while len(self._idle) > self._capacity:
                closing.append(self._idle.popitem(last=False)[1])
        for old in closing:
            old.close()

    def close(self) -> None:
        """Close the idle resources. The pool can be used again."""
        with self._lock:
            closing = list(self._idle.values())
            self._idle.clear()
        for old in closing:
            old.close()


T = TypeVar("T")


class ThreadGroup:
    """Threads with a common lifetime: `with ThreadGroup(cancel) as threads: threads.start(...)`.

    At the end of the block `cancel` is called, which must make every thread return, and all threads
    are joined: only a thread that hangs outlives the block. Threads are daemons, and the group also
    ends at the exit of the interpreter, so a block that is never left does not keep the program
    alive.
    """

    def __init__(self, cancel: Callable[[], None], join_seconds: float | None = None) -> None:
        """Start no thread yet.

        Args:
            cancel: Makes every thread return.
            join_seconds: Time limit for joining a thread; a thread that hangs for longer is
                abandoned, with a warning. None: no limit.
        """
        self._cancel = cancel
        self._join_seconds = join_seconds
        self._threads: list[threading.Thread] = []

    def start(self, name: str, target: Callable[[], None]) -> None:
        """Run `target` in a thread called "headrace-<name>"; `target` must not raise."""
        thread = threading.Thread(target=target, name=f"headrace-{name}", daemon=True)
        self._threads.append(thread)  # before it runs: it may close the group at once
        thread.start()

    def abandon(self, name: str) -> None:
        """Do not join a thread that hangs: it may outlive the block."""
        self._threads = [thread for thread in self._threads if thread.name != f"headrace-{name}"]

    def close(self) -> None:
        """Cancel and join all threads.

        It does not wait if one of the threads calls it: the garbage collector may close a forgotten
        generator in any thread, even in one with a lock that the others need to return.
        """
        self._cancel()
        if threading.current_thread() not in self._threads:
            for thread in self._threads:
                if thread.is_alive():
                    thread.join(self._join_seconds)
                if thread.is_alive():
                    warnings.warn(
                        f"thread {thread.name} hangs and is abandoned: it did not end within "
                        f"{self._join_seconds:g} s",
                        RuntimeWarning,
                        stacklevel=2,
                    )
        atexit.unregister(self.close)

    def __enter__(self) -> "ThreadGroup":
        atexit.register(self.close)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def closing_iterator(iterable: Iterable[T]) -> closing[Generator[T, None, None]]:
    """Close an iterable at the end of the block: `with closing_iterator(x) as values: ...`.

    A generator is closed in the thread that runs it. An exception of `iter(x)` is raised by the
    first `next`, like other failures of x.
    """

    def iterate() -> Generator[T, None, None]:
        yield from iterable

    return closing(iterate())


@contextmanager
def call_every(
    function: Callable[[], None], seconds: float, *, first: Iterable[float] = ()
) -> Iterator[None]:
    """Call `function`, which must not raise, every `seconds` in a thread inside the block.

    `first` has the first intervals. The thread waits for a bare lock: a `Condition` holds the GIL
    three times as long.
    """
    running = threading.Lock()

    def tick() -> None:
        for interval in chain(first, repeat(seconds)):
            if running.acquire(timeout=interval):
                break
            function()

    def end() -> None:
        with suppress(RuntimeError):  # ended before
            running.release()

    running.acquire()
    with ThreadGroup(end) as threads:
        threads.start("ticker", tick)
        yield
