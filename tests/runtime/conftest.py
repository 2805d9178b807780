"""Threads for tests: named, bounded in time, and never lost."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

TIMEOUT_SECONDS = 30
"""Far above what any step takes, also on a busy machine; reached only by a hang."""


class Call:
    """A function at work in a thread of its own; `result` is what it returned or raised."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._error: BaseException | None = None
        self._value: Any = None
        self._thread = threading.Thread(target=self._run, name="test-call", daemon=True)
        self._thread.start()

    def result(self) -> Any:
        """Waits for it; fails the test if it does not come back."""
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


@pytest.fixture
def start() -> Callable[[Callable[[], Any]], Call]:
    """Runs a function in a thread: `start(queue.get).result()`."""
    return Call
