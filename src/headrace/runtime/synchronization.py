"""Room: places that are limited in number, taken before use and given back."""

import threading
from collections import OrderedDict, defaultdict
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from headrace.errors import ConfigError
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.queue import Cancelled


class CapacityLimiter:
    """Keeps what is held inside a limit: `take` waits until there is room for all it asks for.

    `with room: ...` cancels it at the end of the block. Thread-safe. Meant for one thread that
    takes and others that give back; takers are served in no particular order.
    """

    def __init__(self, capacity: int, *, clock: Clock = SYSTEM_CLOCK) -> None:
        """Room for `capacity` places, at least 1.

        Raises:
            ConfigError: `capacity` is below 1.
        """
        if capacity < 1:
            raise ConfigError(f"room needs a capacity >= 1, got {capacity}")
        self.capacity = capacity
        self.taken = 0
        """Places in use."""
        self.most_taken = 0
        """The most that were ever in use."""
        self._blocked_ns = 0
        self._clock = clock
        self._is_cancelled = False
        # Re-entrant for the same reason as that of BoundedQueue.
        self._changed = threading.Condition(threading.RLock())

    @property
    def blocked_seconds(self) -> float:
        """How long takers waited; long waits mean that what gives back is the slower side."""
        return self._blocked_ns / 1e9

    def take(self, places: int) -> None:
        """Take `places`; waits until they are free.

        Raises:
            ConfigError: there are not so many places at all.
            Cancelled: the room was cancelled, also while waiting.
        """
        if not 0 <= places <= self.capacity:
            raise ConfigError(f"{places} places were asked of a room of {self.capacity}")
        with self._changed:
            started_ns = self._clock.now_ns()
            self._changed.wait_for(
                lambda: self._is_cancelled or self.taken + places <= self.capacity
            )
            self._blocked_ns += self._clock.now_ns() - started_ns
            if self._is_cancelled:
                raise Cancelled
            self.taken += places
            self.most_taken = max(self.most_taken, self.taken)

    def take_at_once(self, places: int) -> bool:
        """Take `places` if they are free now; say whether they were."""
        with self._changed:
            is_free = not self._is_cancelled and self.taken + places <= self.capacity
            if is_free:
                self.taken += places
                self.most_taken = max(self.most_taken, self.taken)
            return is_free

    def give(self, places: int) -> None:
        """Give back `places` that were taken."""
        with self._changed:
            self.taken -= places
            self._changed.notify_all()

    def cancel(self) -> None:
        """Wake everybody: from now on every `take` raises."""
        with self._changed:
            self._is_cancelled = True
            self._changed.notify_all()

    def __enter__(self) -> "CapacityLimiter":
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()


class Sequencer:
    """`with turns.turn(key, number): ...` waits until number - 1 of that key is done. Thread-safe.

    Numbers of a key start at 0. Whoever has a number begins it some time, or those behind it wait
    for ever: hand them out to threads in ascending order.
    """

    def __init__(self) -> None:
        self._due: defaultdict[Hashable, int] = defaultdict(int)
        self._is_cancelled = False
        self._changed = threading.Condition()

    @contextmanager
    def turn(self, key: Hashable, number: int) -> Iterator[None]:
        """Have the turn `number` of `key` for the length of the block, however it ends.

        Raises:
            Cancelled: turns were cancelled, also while waiting.
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
        """Wake everybody: from now on nobody gets a turn."""
        with self._changed:
            self._is_cancelled = True
            self._changed.notify_all()


class Closable(Protocol):
    """What can lie on a shelf."""

    def close(self) -> None:
        """Release it."""
        ...


Key = TypeVar("Key", bound=Hashable)
Thing = TypeVar("Thing", bound=Closable)


class ResourcePool(Generic[Key, Thing]):
    """Keeps what is not in use, for whoever needs it next. Thread-safe.

    Who takes a thing has it alone until it is put back. When more than `capacity` lie there, the
    one that has lain longest is closed.
    """

    def __init__(self, capacity: int) -> None:
        """An empty shelf.

        Raises:
            ConfigError: `capacity` is below 1.
        """
        if capacity < 1:
            raise ConfigError(f"a shelf needs a capacity >= 1, got {capacity}")
        self._capacity = capacity
        self._things: OrderedDict[Key, Thing] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """How many things lie there."""
        return len(self._things)

    def take(self, key: Key) -> Thing | None:
        """Take what lies under `key`; None where nothing does."""
        with self._lock:
            return self._things.pop(key, None)

    def put(self, key: Key, thing: Thing) -> None:
        """Put a thing there; closes what lies under the same key, or has lain longest."""
        with self._lock:
            out = [self._things.pop(key)] if key in self._things else []
            self._things[key] = thing
            while len(self._things) > self._capacity:
                out.append(self._things.popitem(last=False)[1])
        for each in out:
            each.close()

    def close(self) -> None:
        """Close what lies there. The shelf may be used again."""
        with self._lock:
            out = list(self._things.values())
            self._things.clear()
        for each in out:
            each.close()
