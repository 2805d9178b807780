"""Processes that begin together, as ranks do."""

import json
import multiprocessing
import signal
import sys
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any, Final, TypeVar

import psutil

from headrace.errors import ConfigError, StageError, file_errors
from headrace.runtime.child_spec import Json
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.posix import end_with_parent
from headrace.runtime.waitable_source import Waiter

_GATE: Final = "begin.json"
_LOOK_SECONDS: Final = 0.02
AHEAD_SECONDS: Final = 0.25
"""From the opening to the moment all go on: enough for all of them to have seen it."""


class Rendezvous:
    """The place, for who waits for the others to come: hears them, and opens. Not thread-safe."""

    def __init__(self, folder: Path, clock: Clock = SYSTEM_CLOCK) -> None:
        """Nobody is there yet.

        Args:
            folder: An empty folder of its own, whose owner deletes it.
            clock: One that other processes of this machine read the same.
        """
        self._folder = folder
        self._clock = clock
        self._read: dict[str, int] = {}

    def address(self, name: str) -> str:
        """Return what a `Participant` takes: the place of one of those who come."""
        return json.dumps([str(self._folder), name, psutil.Process().pid])

    def hear(self) -> list[tuple[str, Json]]:
        """Return what each has told since the last time, as (name, message), in its own order."""
        found: list[tuple[str, Json]] = []
        for path in sorted(self._folder.glob("*.jsonl")):
            with path.open("rb") as file:
                file.seek(self._read.get(path.stem, 0))
                whole, end, _ = file.read().rpartition(b"\n")
            self._read[path.stem] = self._read.get(path.stem, 0) + len(whole + end)
            found += [(path.stem, json.loads(line)) for line in whole.splitlines()]
        return found

    def open(self) -> int:
        """Let all who wait go on, at the moment returned: nanoseconds of the clock."""
        moment_ns = self._clock.now_ns() + round(AHEAD_SECONDS * 1e9)
        partial = self._folder / f".{_GATE}"
        partial.write_text(json.dumps(moment_ns), encoding="utf-8")
        partial.replace(self._folder / _GATE)
        return moment_ns


class Participant:
    """One of those who come, in its own process. Not thread-safe."""

    def __init__(self, address: str, clock: Clock = SYSTEM_CLOCK) -> None:
        """Comes to the place that `Rendezvous.address` gave; the clock is of the same kind."""
        folder, name, host = json.loads(address)
        self._gate = Path(folder) / _GATE
        self._file = Path(folder) / f"{name}.jsonl"
        self._host = int(host)
        self._clock = clock

    def tell(self, message: Json) -> None:
        """Say something to who waits for all.

        Raises:
            ConfigError: the place is gone, or cannot be written to.
        """
        with (
            file_errors(f"cannot tell the launch by {self._file}", "launch it again"),
            self._file.open("a", encoding="utf-8") as file,
        ):
            file.write(json.dumps(message) + "\n")

    def wait(self) -> int:
        """Wait until all go on; return when that was, in nanoseconds of the clock.

        Raises:
            ConfigError: who would open it is gone.
        """
        waiter = Waiter(self._clock)
        while not self._gate.exists():
            if not psutil.pid_exists(self._host):
                raise ConfigError("the launch ended before its workers began; launch them again")
            waiter.pause(_LOOK_SECONDS)
        waiter.until(json.loads(self._gate.read_text(encoding="utf-8")))
        return self._clock.now_ns()


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
