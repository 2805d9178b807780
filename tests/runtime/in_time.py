"""Calls in threads that fail a test instead of hanging; complete runs; a watched clock."""

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
"""Far longer than any step takes, also on a busy machine."""


class Call:
    """A function call in its own thread: `Call(queue.get).result()`."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._error: BaseException | None = None
        self._value: Any = None
        self._thread = threading.Thread(target=self._run, name="test-call", daemon=True)
        self._thread.start()

    def result(self) -> Any:
        """Return or raise the function's outcome; fail the test if it does not return."""
        self._thread.join(TIMEOUT_SECONDS)
        if self._thread.is_alive():
            pytest.fail(f"{self._function} did not return within {TIMEOUT_SECONDS} s")
        if self._error is not None:
            raise self._error
        return self._value

    def _run(self) -> None:
        try:
            self._value = self._function()
        except BaseException as error:  # noqa: BLE001 - raised again by result()
            self._error = error


def in_time(function: Callable[[], Any]) -> Any:
    """Return or raise a function's outcome; fail the test if it hangs."""
    return Call(function).result()


def happens(event: threading.Event) -> None:
    """Wait for an event; fail the test if it does not happen."""
    if not event.wait(TIMEOUT_SECONDS):
        pytest.fail(f"did not happen within {TIMEOUT_SECONDS} s")


class WatchedClock(FakeClock):
    """Fake clock that detects reads by threads other than the test's."""

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
        """Start a call that has to wait on `on`, and return when it waits.

        The call reads the clock once under the lock of `on`, and releases the lock by waiting.
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
    """Run a block, which calls the yielded function to leave by an error; None: no error."""

    def leave() -> None:
        if error is not None:
            raise error

    with nullcontext() if error is None else pytest.raises(error):
        yield leave


def headrace_threads() -> set[str]:
    """Return the names of headrace's running threads."""
    return {t.name for t in threading.enumerate() if t.name.startswith("headrace-")}


def ran(source: Any, *stages: Any, how: dict[str, Any] | None = None, **options: Any) -> Any:
    """Return items, stage statistics and flow of a complete run; `how` has options of `run`."""
    with Pipeline(source=source, stages=stages, **options).run(**how or {}) as run:
        return list(run), run.stages(), run.flow()


def collect(line: Pipeline, got: list[Any]) -> None:
    """Run a pipeline, and append the value of each item to `got`."""
    with line.run() as run:
        got.extend(item.value for item in run)


def outputs(line: Pipeline) -> list[Any]:
    """Return the values of a complete run."""
    got: list[Any] = []
    collect(line, got)
    return got


def values(items: Any) -> list[Any]:
    """Return the values of items."""
    return [item.value for item in items]


def fails_on(item: Any, error: BaseException) -> Callable[[Any], Any]:
    """Return an identity function that raises for one item."""

    def function(value: Any) -> Any:
        if value == item:
            raise error
        return value

    return function


def printed(script: str) -> str:
    """Return the output of a script in a new interpreter, which must end in time without errors."""
    command = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
