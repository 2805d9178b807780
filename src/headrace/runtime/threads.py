"""Thread groups, a periodic call, and generators closed in the thread that runs them."""

import atexit
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import chain, repeat
from typing import TypeVar

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
