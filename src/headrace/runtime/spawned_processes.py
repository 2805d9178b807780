"""Spawned processes of `multiprocessing`: a group of them, a rendezvous, and a run of ranks.

They receive no Ctrl-C and end with this process. A rendezvous also starts other processes together.
"""

import json
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import FrameType
from typing import Any, Final, TypeVar

import psutil

from headrace.errors import ConfigError, StageError, file_errors
from headrace.runtime.child_process import Json
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.posix import deferred_sigint, kill_at_hangup
from headrace.runtime.waitable_source import Waiter

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


_GATE: Final = "begin.json"
"""File that the rendezvous writes when it opens."""
_POLL_SECONDS: Final = 0.02
"""Interval of checks for that file."""
AHEAD_SECONDS: Final = 0.25
"""Seconds from the opening to the common start, enough for every participant to see the file."""


class Rendezvous:
    """Folder through which participants send messages and start together. Not thread-safe."""

    def __init__(self, folder: Path, clock: Clock = SYSTEM_CLOCK) -> None:
        """Start without participants.

        Args:
            folder: An empty folder; the caller deletes it.
            clock: A clock that all processes of this machine share.
        """
        self._folder = folder
        self._clock = clock
        self._offsets: dict[str, int] = {}

    def address(self, name: str) -> str:
        """Return the address for the `Participant` called `name`."""
        return json.dumps([str(self._folder), name, psutil.Process().pid])

    def receive(self) -> list[tuple[str, Json]]:
        """Return the messages since the last call as (name, message), in order per name."""
        messages: list[tuple[str, Json]] = []
        for path in sorted(self._folder.glob("*.jsonl")):
            offset = self._offsets.get(path.stem, 0)
            with path.open("rb") as file:
                file.seek(offset)
                lines, end, _ = file.read().rpartition(b"\n")
            self._offsets[path.stem] = offset + len(lines + end)
            messages += [(path.stem, json.loads(line)) for line in lines.splitlines()]
        return messages

    def open(self) -> int:
        """Start all participants; return the common start in nanoseconds of the clock."""
        start_ns = self._clock.now_ns() + round(AHEAD_SECONDS * 1e9)
        partial = self._folder / f".{_GATE}"
        partial.write_text(json.dumps(start_ns), encoding="utf-8")
        partial.replace(self._folder / _GATE)
        return start_ns


class Participant:
    """A process at a rendezvous. Not thread-safe."""

    def __init__(self, address: str, clock: Clock = SYSTEM_CLOCK) -> None:
        """Join a rendezvous by its `address`; the clock must be the rendezvous's."""
        folder, name, host_pid = json.loads(address)
        self._gate = Path(folder) / _GATE
        self._file = Path(folder) / f"{name}.jsonl"
        self._host_pid = int(host_pid)
        self._clock = clock

    def send(self, message: Json) -> None:
        """Send a message to the rendezvous.

        Raises:
            ConfigError: the folder is missing, or cannot be written to.
        """
        with (
            file_errors(f"cannot report to the launch in {self._file}", "launch it again"),
            self._file.open("a", encoding="utf-8") as file,
        ):
            file.write(json.dumps(message) + "\n")

    def wait(self) -> int:
        """Wait for the common start; return the time in nanoseconds of the clock.

        Raises:
            ConfigError: the process of the rendezvous has ended.
        """
        waiter = Waiter(self._clock)
        while not self._gate.exists():
            if not psutil.pid_exists(self._host_pid):
                raise ConfigError("the launch ended before its workers started; launch them again")
            waiter.pause(_POLL_SECONDS)
        waiter.until(json.loads(self._gate.read_text(encoding="utf-8")))
        return self._clock.now_ns()


Argument = TypeVar("Argument")
Result = TypeVar("Result")

RankFunction = Callable[[Argument, Callable[[], None]], Result]
"""Called with an argument and a function that waits until all ranks have called it."""


def run_ranks(
    function: RankFunction[Argument, Result],
    arguments: Sequence[Argument],
    *,
    timeout_seconds: float,
    clock: Clock = SYSTEM_CLOCK,
) -> tuple[list[Result], float]:
    """Run `function` once per argument, each in a new process; return results and seconds.

    The seconds run from when all processes are ready until the last is done. Processes import
    `function` by its name and get their arguments by pickling; their children use the system's
    default start method. Only the caller receives Ctrl-C; if it ends this call, the processes end.

    Raises:
        StageError: a process failed, or sent nothing for `timeout_seconds`. All are terminated.
    """
    processes = SpawnedProcesses()
    pipes: list[Connection] = []
    try:
        for rank, argument in enumerate(arguments):
            local, remote = CONTEXT.Pipe()
            pipes.append(local)
            processes.start(f"headrace-rank-{rank}", _run_rank, function, argument, remote)
            remote.close()
        for pipe in pipes:
            _receive(pipe, timeout_seconds)
        started_ns = clock.now_ns()
        for pipe in pipes:
            pipe.send(None)
        results = [_receive(pipe, timeout_seconds) for pipe in pipes]
        seconds = (clock.now_ns() - started_ns) / 1e9
        processes.join()
        return results, seconds
    finally:
        processes.close()
        for pipe in pipes:
            pipe.close()


def _receive(pipe: Connection, timeout_seconds: float) -> Any:
    if not pipe.poll(timeout_seconds):
        raise StageError(f"a process sent no result for {timeout_seconds:g} s", stage="processes")
    try:
        failure, result = pipe.recv()
    except EOFError as error:
        raise StageError("a process ended without a result", stage="processes") from error
    if failure is not None:
        raise StageError(f"a process failed: {failure}", stage="processes")
    return result


def _run_rank(
    function: RankFunction[Argument, Result], argument: Argument, pipe: Connection
) -> None:
    def exit_process(number: int, frame: FrameType | None) -> None:
        sys.exit()  # closes files, and ends its workers

    signal.signal(signal.SIGTERM, exit_process)
    # Children start as in a rank that a user starts. Otherwise they would be spawned too, and each
    # DataLoader worker would import everything again: 4 s of a core.
    multiprocessing.set_start_method(None, force=True)

    def ready() -> None:
        pipe.send((None, None))
        pipe.recv()

    try:
        pipe.send((None, function(argument, ready)))
    except Exception as error:  # noqa: BLE001 - sent to the parent, which raises it
        pipe.send((f"{type(error).__name__}: {error}", None))
    finally:
        pipe.close()
