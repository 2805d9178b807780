"""Calls in threads that fail a test rather than hang it, runs to their end, and a watched clock."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

from headrace.runtime.pipeline import Pipeline
from headrace.runtime.queue import BoundedQueue
from headrace.runtime.synchronization import CapacityLimiter
from headrace.runtime.waitable_source import Waiter
from headrace.testing.fake_clock import FakeClock

TIMEOUT_SECONDS = 30
"""Far above what any step takes, also on a busy machine; reached only by a hang."""


class Call:
    """A function at work in a thread of its own: `Call(queue.get).result()`."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._error: BaseException | None = None
        self._value: Any = None
        self._thread = threading.Thread(target=self._run, name="test-call", daemon=True)
        self._thread.start()

    def result(self) -> Any:
        """What it returned or raised; fails the test if it does not come back."""
        self._thread.join(TIMEOUT_SECONDS)
        if self._thread.is_alive():
            pytest.fail(f"{self._function} did not come back within {TIMEOUT_SECONDS} s")
        if self._error is not None:
            raise self._error
        return self._value

    def _run(self) -> None:
        try:
            self._value = self._function()
        except BaseException as error:  # noqa: BLE001 - raised again by result()
            self._error = error


def in_time(function: Callable[[], Any]) -> Any:
    """What the function returns or raises; fails the test if it hangs."""
    return Call(function).result()


def happens(event: threading.Event) -> None:
    """Waits for it; fails the test if it does not happen."""
    if not event.wait(TIMEOUT_SECONDS):
        pytest.fail(f"did not happen within {TIMEOUT_SECONDS} s")


class WatchedClock(FakeClock):
    """A fake clock that knows when another thread than the test's has read it."""

    def __init__(self) -> None:
        super().__init__()
        self._owner = threading.current_thread()
        self._reads = threading.Semaphore(0)

    def now_ns(self) -> int:
        if threading.current_thread() is not self._owner:
            self._reads.release()
        return super().now_ns()

    def start_waiting(
        self, on: BoundedQueue[Any] | CapacityLimiter | Waiter, function: Callable[[], Any]
    ) -> Call:
        """Starts a `put`, `get`, `take` or wait that has to wait, and comes back when it does.

        It reads the clock once under the lock of `on`, and gives that lock up by waiting.
        """
        call = Call(function)
        if not self._reads.acquire(timeout=TIMEOUT_SECONDS):
            pytest.fail("nothing read the clock")
        if isinstance(on, CapacityLimiter):  # takes the lock
            on.release(0)
        elif isinstance(on, Waiter):
            on.notify()
        else:
            on.statistics()
        return call


@contextmanager
def left_by(error: type[BaseException] | None) -> Iterator[Callable[[], None]]:
    """A block that an error leaves, when the function it is given is called; None: no error."""

    def leave() -> None:
        if error is not None:
            raise error

    with nullcontext() if error is None else pytest.raises(error):
        yield leave


def headrace_threads() -> set[str]:
    """The names of the threads of headrace that run now."""
    return {t.name for t in threading.enumerate() if t.name.startswith("headrace-")}


def ran(source: Any, *stages: Any, how: dict[str, Any] | None = None, **options: Any) -> Any:
    """Items, statistics of the stages and flow of a run to its end; `how` is for `run`."""

    with Pipeline(source=source, stages=stages, **options).run(**how or {}) as run:
        return list(run), run.stages(), run.flow()


def collect(line: Pipeline, got: list[Any]) -> None:
    """Runs it, and puts the value of each item into `got` as it comes."""

    with line.run() as run:
        got.extend(item.value for item in run)


def outputs(line: Pipeline) -> list[Any]:
    """The values that a run to its end gives."""
    got: list[Any] = []
    collect(line, got)
    return got


def values(items: Any) -> list[Any]:
    """What the items hold."""
    return [item.value for item in items]


def fails_on(item: Any, error: BaseException) -> Callable[[Any], Any]:
    """A function that gives what it is given, but for one item, where it raises."""

    def function(value: Any) -> Any:
        if value == item:
            raise error
        return value

    return function


def printed(script: str) -> str:
    """What it prints in an interpreter of its own, which must end in time and without a word."""
    command = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
