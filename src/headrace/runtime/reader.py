"""A thread that reads what nobody can wake, and hands over the newest of what it read."""

import threading
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from typing import Generic, TypeVar

from headrace.runtime.queue import BoundedQueue, Cancelled
from headrace.runtime.waiter import Waiter

T = TypeVar("T")


class Reader(Generic[T]):
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
