"""Spawned processes of `multiprocessing`, which receive no Ctrl-C and end with this process."""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from multiprocessing import parent_process
from multiprocessing.connection import wait
from typing import Any, Final

from headrace.runtime.posix import deferred_sigint, kill_at_hangup

CONTEXT: Final = multiprocessing.get_context("spawn")
_GRACE_SECONDS: Final = 5.0
"""Time between SIGTERM and SIGKILL."""


class SpawnedProcesses:
    """Group of processes: `start` each, `close` in any case. Not thread-safe.

    A process gets its arguments by pickling. Only this process receives Ctrl-C.
    """

    def __init__(self, *, are_daemons: bool = False) -> None:
        """Start no process yet; daemons cannot have children of `multiprocessing`."""
        self._are_daemons = are_daemons
        self._processes: list[Any] = []

    def start(self, name: str, target: Callable[..., None], *arguments: Any) -> None:
        """Start a process that calls `target`, a module-level function."""
        process = CONTEXT.Process(
            target=_run, args=(target, arguments), name=name, daemon=self._are_daemons
        )
        with deferred_sigint(), _blocked_sigint():
            process.start()
            self._processes.append(process)

    def exit_codes(self) -> list[int | None]:
        """Return the exit code of each process, negative for a signal; None while it runs."""
        return [process.exitcode for process in self._processes]

    def join(self) -> None:
        """Wait until all processes have ended by themselves."""
        for process in self._processes:
            process.join()

    def close(self) -> None:
        """Send SIGTERM to all processes, and SIGKILL after a grace time. May be called again."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join(_GRACE_SECONDS)
            process.kill()
            process.join()
            process.close()
        self._processes = []


@contextmanager
def _blocked_sigint() -> Generator[None, None, None]:
    """Block SIGINT; processes started inside inherit this, and so do their children.

    Windows cannot block it: there the processes receive Ctrl-C too.
    """
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _run(target: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    """Call `target` in a process that ends with its parent, even after SIGKILL."""
    parent = parent_process()
    assert parent is not None
    sentinel = parent.sentinel
    kill_at_hangup(sentinel, os.getpid())

    def watch(timeout_seconds: float | None = None) -> None:
        if wait([sentinel], timeout_seconds):
            os._exit(1)

    watch(0)  # the parent may have ended before `kill_at_hangup`
    if sys.platform != "linux":
        threading.Thread(target=watch, name="headrace-parent", daemon=True).start()
    target(*arguments)
