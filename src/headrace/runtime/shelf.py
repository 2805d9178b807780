"""A shelf of things that are costly to open: one takes them at a time, the oldest is closed."""

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar

from headrace.errors import ConfigError


class Closable(Protocol):
    """What can lie on a shelf."""

    def close(self) -> None:
        """Release it."""
        ...


Key = TypeVar("Key", bound=Hashable)
Thing = TypeVar("Thing", bound=Closable)


class Shelf(Generic[Key, Thing]):
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
