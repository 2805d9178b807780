"""Supervisors of child processes: many children until all have ended, or one child between jobs.

A failed child does not end others, and no child outlives this process.
"""

import json
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from selectors import DefaultSelector
from typing import IO, Final, cast

from headrace.errors import ConfigError
from headrace.runtime.child_process import Child, ChildProcess, CompletedChild, FunctionSpec, Json
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.posix import deferred_sigint
from headrace.units import check_integers

_POLL_SECONDS: Final = 0.05
"""Interval of checks for exits and time limits."""


def run_children(
    children: Sequence[Child],
    *,
    max_running: int | None = None,
    on_message: Callable[[str, Json], None] = lambda name, message: None,
    on_end: Callable[[CompletedChild], None] = lambda ending: None,
    on_look: Callable[[], None] = lambda: None,
    on_interrupt: Callable[[], None] | None = None,
    grace_seconds: float = 5.0,
    clock: Clock = SYSTEM_CLOCK,
) -> list[CompletedChild]:
    """Run programs and functions as child processes until all have ended; return their results.

    If this ends otherwise (Ctrl-C without `on_interrupt`, an exception of a callback), all children
    and their children are ended first. Callbacks run in the calling thread.

    Args:
        children: Programs and functions to run, with different names.
        max_running: Maximum number of children at a time, started in order; None: all.
        on_message: Called with a child's name and each message of its function.
        on_end: Called when a child has ended, while others run.
        on_look: Called some 20 times a second while a child runs.
        on_interrupt: Called at Ctrl-C; then all children get SIGTERM and `grace_seconds`, and their
            results are returned. A second Ctrl-C ends them at once and is raised.
        grace_seconds: Time between SIGTERM and SIGKILL of a child that is interrupted, or at its
            time limit.
        clock: Clock of the time limits.

    Returns:
        The result of each child, in order; failures and time-outs are results too.

    Raises:
        BackendError: this system is Windows.
        ConfigError: `max_running` is below 1, or two children have the same name.
        TypeError: the argument of a function is not JSON.
    """
    names = [child.name for child in children]
    if len(set(names)) < len(names):
        raise ConfigError(f"children need different names, got {', '.join(names)}")
    check_integers(1, max_running=max_running)
    with _Supervisor(on_message, on_end, on_look, grace_seconds, clock) as supervisor:
        try:
            supervisor.run(deque(children), max_running or len(children))
        except KeyboardInterrupt:
            if on_interrupt is None:
                raise
            on_interrupt()
            supervisor.stop(names)
        return [supervisor.endings[name] for name in names]


@dataclass(eq=False)
class _Supervisor:
    """Running children; leaving the block ends them."""

    on_message: Callable[[str, Json], None]
    on_end: Callable[[CompletedChild], None]
    on_look: Callable[[], None]
    grace_seconds: float
    clock: Clock
    endings: dict[str, CompletedChild] = field(default_factory=dict)
    _running: dict[str, ChildProcess] = field(default_factory=dict)
    _selector: DefaultSelector = field(default_factory=DefaultSelector)

    def run(self, waiting: deque[Child], max_running: int) -> None:
        while waiting or self._running:
            while waiting and len(self._running) < max_running:
                self._start(waiting.popleft())
            for key, _ in self._selector.select(_POLL_SECONDS):
                key.data.read(key.fd)
            self.on_look()
            for name, process in tuple(self._running.items()):
                ending = process.poll()
                if ending is not None:
                    del self._running[name]
                    self._record(ending)

    def stop(self, names: Sequence[str]) -> None:
        """Stop all running children and wait for their ends; start no others."""
        for process in self._running.values():
            process.stop()
        self.run(deque(), 0)
        for name in names:
            if name not in self.endings:
                self._record(CompletedChild(name=name, error="it was not started"))

    def _start(self, child: Child) -> None:
        try:
            with (
                deferred_sigint()
            ):  # a started process must be recorded, to be ended with the others
                self._running[child.name] = ChildProcess(
                    child, self._selector, self.on_message, self.grace_seconds, self.clock
                )
        except OSError as error:
            reason = f"it cannot be started: {error.strerror or error}"
            self._record(CompletedChild(name=child.name, error=reason))

    def _record(self, ending: CompletedChild) -> None:
        self.endings[ending.name] = ending
        self.on_end(ending)

    def __enter__(self) -> "_Supervisor":
        return self

    def __exit__(self, *_: object) -> None:
        with self._selector, ExitStack() as stack:
            with deferred_sigint():
                for process in self._running.values():
                    stack.callback(process.close)
            for process in self._running.values():
                process.terminate()


_READY: Final = "more"
"""Message of a child that is ready for a job."""
_GRACE_SECONDS: Final = 2.0
"""Time between SIGTERM and SIGKILL."""


class PersistentChild:
    """Child whose function reads jobs from `iter_messages`. Not thread-safe.

    A costly start, such as loading a model, happens once. The child ends with this process.
    """

    def __init__(
        self,
        call: FunctionSpec,
        on_message: Callable[[str, Json], None] = lambda name, message: None,
    ) -> None:
        """Start the child.

        Args:
            call: The function to run. Its time limit covers all jobs.
            on_message: Called with its name and each message.

        Raises:
            OSError: the child cannot be started.
            TypeError: the argument is not JSON.
        """
        self._on_message = on_message
        self._is_ready = False
        self._ending: CompletedChild | None = None
        self._selector = DefaultSelector()
        try:
            self._process = ChildProcess(
                replace(call, reads_messages=True),
                self._selector,
                self._receive,
                _GRACE_SECONDS,
                SYSTEM_CLOCK,
            )
        except BaseException:
            self._selector.close()
            raise

    def run(self, message: Json) -> CompletedChild | None:
        """Run a job; return None, or the result of the child if it has ended."""
        self._wait()  # until it has started
        if self._ending is None:
            self._is_ready = False
            self._process.send(message)
            self._wait()
        return self._ending

    def close(self) -> None:
        """End the child, if it runs. May be called again."""
        self._process.close()
        self._selector.close()

    def _wait(self) -> None:
        """Wait until the child is ready for a job, or has ended."""
        while not self._is_ready and self._ending is None:
            for key, _ in self._selector.select(_POLL_SECONDS):
                key.data.read(key.fd)
            if not self._is_ready:
                self._ending = self._process.poll()

    def _receive(self, name: str, message: Json) -> None:
        if message == _READY:
            self._is_ready = True
        else:
            self._on_message(name, message)


def iter_messages(send: Callable[[Json], None]) -> Iterator[Json]:
    """Yield the jobs of a `PersistentChild`, in its process; a job ends when the next is taken.

    Args:
        send: The `send` argument of the child's function, which must not send "more" itself.
    """
    send(_READY)
    for line in sys.stdin:
        yield json.loads(line)
        send(_READY)


class LineRpcProcess:
    """Process of a module that reads binary requests and writes a line for each.

    A request is its length, 4 bytes big-endian, and its bytes. The process receives no Ctrl-C and
    ends with its input, so it never outlives this process.
    """

    def __init__(self, module: str, *arguments: str) -> None:
        """Start `python -m module arguments`; its standard error is discarded."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def read_line(self) -> str | None:
        """Return the next line; None if the process has ended."""
        line = cast(IO[bytes], self._process.stdout).readline()
        return line.decode(errors="replace").rstrip("\n") if line else None

    def request(self, message: bytes) -> str | None:
        """Send a request and return its line; None if the process has ended."""
        stdin = cast(IO[bytes], self._process.stdin)
        try:
            stdin.write(len(message).to_bytes(4, "big"))
            stdin.write(message)
            stdin.flush()
            return self.read_line()
        except (BrokenPipeError, ValueError):  # it has ended, or was closed
            return None

    def close(self) -> None:
        """End the process at once; a pending request returns None. May be called again."""
        with suppress(BrokenPipeError), self._process:  # closes its pipes
            self._process.kill()
