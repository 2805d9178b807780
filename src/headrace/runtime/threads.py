"""Threads with one life, a periodic call, and generators closed in the thread that ran them."""

import atexit
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import chain, repeat
from typing import TypeVar

T = TypeVar("T")


class ThreadGroup:
    """Threads with one life: `with ThreadGroup(cancel) as threads: threads.start(...)`.

    At the end of the block `cancel` is called, which must make every thread return, and all are
    joined: only a thread that hangs outlives the block. They are daemons, and the group also ends
    at the exit of the interpreter, so a block that is never left does not keep the program alive.
    """

    def __init__(self, cancel: Callable[[], None], join_seconds: float | None = None) -> None:
        """No thread yet.

        Args:
            cancel: Makes every thread return.
            join_seconds: Seconds to wait for a thread at the end; one that hangs for longer is
                left behind, with a warning. None: for ever.
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
        """Do not wait for a thread that hangs: it may outlive the block, and ends by itself."""
        self._threads = [thread for thread in self._threads if thread.name != f"headrace-{name}"]

    def close(self) -> None:
        """Cancel and join all threads.

        Called from one of them it does not wait: the garbage collector may close a forgotten
        generator in any thread, also in one that holds a lock which the others need to return.
        """
        self._cancel()
        if threading.current_thread() not in self._threads:
            for thread in self._threads:
                if thread.is_alive():
                    thread.join(self._join_seconds)
                if thread.is_alive():
                    warnings.warn(
                        f"thread {thread.name} hangs and is left behind: it did not end within "
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
    """Close a generator at the end of the block: `with closing_iterator(x) as values: ...`.

    The thread that ran it also closes it. An exception of `iter(x)` is raised by the first
    `next`, like every other failure of x.
    """

    def iterate() -> Generator[T, None, None]:
        yield from iterable

    return closing(iterate())


@contextmanager
def call_every(
    function: Callable[[], None], seconds: float, *, first: Iterable[float] = ()
) -> Iterator[None]:
    """Call `function`, which must not raise, every `seconds` in a thread while the block runs.

    The first intervals may differ. The thread waits in a bare lock: a `Condition` takes the GIL
    from the others for three times as long.
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
