"""Processes that begin together, as ranks do."""

import multiprocessing
import signal
import sys
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any, TypeVar

from headrace.errors import StageError
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.parent_end import end_with_parent

Argument = TypeVar("Argument")
Result = TypeVar("Result")

_GRACE_SECONDS = 5.0
"""How long a process that is not wanted any more may take to end its own."""

Work = Callable[[Argument, Callable[[], None]], Result]
"""Given its argument and a function to call when it is ready, which returns when all are."""


def run_together(
    work: Work[Argument, Result],
    arguments: Sequence[Argument],
    *,
    timeout_seconds: float,
    clock: Clock = SYSTEM_CLOCK,
) -> tuple[list[Result], float]:
    """Run `work` once for each argument, each in a new process; return results and seconds.

    The seconds are those from when all were ready until the last was done. New processes import
    `work` by its name and are sent their arguments; their own children start as is usual on this
    system. They do not hear Ctrl-C, which is the caller's to act on: when it ends this, they end.

    Raises:
        StageError: one of them failed, or gave no answer for `timeout_seconds`. All are ended.
    """
    context = multiprocessing.get_context("spawn")
    processes: list[Any] = []
    ends: list[Connection] = []
    is_done = False
    try:
        for argument in arguments:
            ours, theirs = context.Pipe()
            ends.append(ours)
            process = context.Process(target=_run, args=(work, argument, theirs))
            processes.append(process)
            _start(process)
            theirs.close()
        for end in ends:
            _receive(end, timeout_seconds)
        started_ns = clock.now_ns()
        for end in ends:
            end.send(None)
        results = [_receive(end, timeout_seconds) for end in ends]
        seconds = (clock.now_ns() - started_ns) / 1e9
        is_done = True
        return results, seconds
    finally:
        _end([process for process in processes if process.pid is not None], is_done=is_done)
        for end in ends:
            end.close()


def _start(process: Any) -> None:
    """Start a process that does not hear Ctrl-C, and neither does what it starts."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end(processes: Sequence[Any], *, is_done: bool) -> None:
    if not is_done:
        for process in processes:
            process.terminate()
        for process in processes:
            process.join(_GRACE_SECONDS)
            process.kill()
    for process in processes:
        process.join()
        process.close()


def _receive(end: Connection, timeout_seconds: float) -> Any:
    if not end.poll(timeout_seconds):
        raise StageError(f"a process gave no answer for {timeout_seconds:g} s", stage="processes")
    try:
        failure, result = end.recv()
    except EOFError as error:
        raise StageError("a process ended without an answer", stage="processes") from error
    if failure is not None:
        raise StageError(f"a process failed: {failure}", stage="processes")
    return result


def _run(work: Work[Argument, Result], argument: Argument, end: Connection) -> None:
    end_with_parent()

    def leave(number: int, frame: FrameType | None) -> None:
        sys.exit()  # so that what was opened is closed, and workers of its own end

    signal.signal(signal.SIGTERM, leave)
    # Its own children begin as those of a process that was begun by hand, as a rank is: not spawned
    # because it was, so that each worker of a DataLoader imports all anew, 4 s of a core.
    multiprocessing.set_start_method(None, force=True)

    def ready() -> None:
        end.send((None, None))
        end.recv()

    try:
        end.send((None, work(argument, ready)))
    except Exception as error:  # noqa: BLE001 - told to the parent, which raises it
        end.send((f"{type(error).__name__}: {error}", None))
    finally:
        end.close()
