"""The newest of what one thread brings, for as many coroutines as want it."""

import asyncio
import threading
from typing import Generic, TypeVar

T = TypeVar("T")


class LatestValue(Generic[T]):
    """Keeps the newest value; whoever comes for it gets the one that is newest then.

    Nobody holds anybody: putting never waits, what nobody came for in time is replaced, and a
    coroutine that is slow to come back finds what is newest by then.
    """

    def __init__(self) -> None:
        """Nothing has come."""
        self._lock = threading.Lock()
        self._value: T | None = None
        self._number = 0
        self._is_closed = False
        self._waiting: dict[asyncio.Future[None], asyncio.AbstractEventLoop] = {}

    @property
    def number(self) -> int:
        """How many values have come; the number of the newest, counted from 1."""
        return self._number

    @property
    def waiting(self) -> int:
        """How many coroutines wait now."""
        return len(self._waiting)

    def put(self, value: T) -> None:
        """Replaces the newest and tells who waits; from any thread, never waits."""
        with self._lock:
            self._value = value
            self._number += 1
            self._wake()

    def close(self) -> None:
        """Nothing more comes: who waits, or comes to wait, goes away at once."""
        with self._lock:
            self._is_closed = True
            self._wake()

    def get(self) -> tuple[int, T] | None:
        """Number and value of the newest; None before the first."""
        with self._lock:
            return None if self._value is None else (self._number, self._value)

    async def wait(self, after: int, seconds: float) -> bool:
        """Waits for one that is newer than number `after`; False when none came in `seconds`."""
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
            loop.call_soon_threadsafe(_set, woken)
        self._waiting.clear()


def _set(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
