"""Turns: work on one thing, done by many threads, in the order it was numbered in."""

import threading
from collections import defaultdict
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from headrace.runtime.queue import Cancelled


class Turns:
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
