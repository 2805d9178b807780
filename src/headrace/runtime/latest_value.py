"""Latest value of a thread, for any number of coroutines."""

import asyncio
import threading
from typing import Generic, TypeVar

T = TypeVar("T")


class LatestValue(Generic[T]):
    """Holds the latest value; coroutines can wait for a newer one.

    The producer never blocks: `put` replaces the value, read or not.
    """

    def __init__(self) -> None:
        """Start without a value."""
        self._lock = threading.Lock()
        self._value: T | None = None
        self._number = 0
        self._is_closed = False
        self._waiting: dict[asyncio.Future[None], asyncio.AbstractEventLoop] = {}

    @property
    def number(self) -> int:
        """Number of the latest value, counted from 1; 0 before the first."""
        return self._number

    @property
    def waiting(self) -> int:
        """Number of coroutines that wait now."""
        return len(self._waiting)

    def put(self, value: T) -> None:
        """Replace the value and wake the coroutines; from any thread, never blocks."""
        with self._lock:
            self._value = value
            self._number += 1
            self._wake()

    def close(self) -> None:
        """End all waits, also future ones."""
        with self._lock:
            self._is_closed = True
            self._wake()

    def get(self) -> tuple[int, T] | None:
        """Return the latest (number, value); None before the first."""
        with self._lock:
            return None if self._value is None else (self._number, self._value)

    async def wait(self, after: int, seconds: float) -> bool:
        """Wait for a value after number `after`; return False if there is none within `seconds`."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._number > after or self._is_closed:
                return self._number > after
            woken: asyncio.Future[None] = loop.create_future()
            self._waiting[woken] = loop
        try:
            await asyncio.wait_for(woken, seconds)
        except TimeoutError:
            return False
        finally:
            with self._lock:
                self._waiting.pop(woken, None)
        return self._number > after

    def _wake(self) -> None:
        for woken, loop in self._waiting.items():
            loop.call_soon_threadsafe(_set_done, woken)
        self._waiting.clear()


def _set_done(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
