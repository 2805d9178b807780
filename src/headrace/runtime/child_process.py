"""Child processes: what to run, a running child with its pipes and time limit, and its result."""

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from selectors import EVENT_READ, BaseSelector
from typing import IO, ClassVar, Final, cast

from headrace.errors import ConfigError, last_words
from headrace.runtime.clock import Clock
from headrace.runtime.posix import check_posix, deferred_sigint, kill_at_hangup

LAUNCH_VARIABLE: Final = "HEADRACE_LAUNCH"
"""Environment variable with a run's address in its launch."""

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
"""Value that a child and its parent exchange, as text, so that reading it executes nothing."""

ChildFunction = Callable[[Json, Callable[[Json], None]], Json]
"""Called with its argument and a function that sends a message at once; returns its result."""


@dataclass(frozen=True, kw_only=True)
class CommandSpec:
    """A program to run as a child."""

    name: str
    """Its name in messages."""
    arguments: tuple[str, ...]
    """The program and its arguments, without a shell."""
    environment: Mapping[str, str] | None = None
    """All environment variables; None: those of this process."""
    timeout_seconds: ClassVar = None
    reads_messages: ClassVar = False

    def __post_init__(self) -> None:
        if not self.arguments:
            raise ConfigError(f"child {self.name!r} needs a program to run, got no arguments")

    def command_line(self, pipe: int) -> Sequence[str]:
        """Return the program and its arguments; file descriptor `pipe` is not used."""
        return self.arguments


@dataclass(frozen=True, kw_only=True)
class FunctionSpec:
    """A function to run as a child, in a new interpreter."""

    name: str
    """Its name in messages."""
    function: ChildFunction
    """A module-level function: the child imports it by its name."""
    argument: Json = None
    """Argument of the function, sent as JSON."""
    timeout_seconds: float | None = None
    """Time limit of the child; None: none."""
    reads_messages: bool = False
    """Whether it reads further messages from standard input: see `PersistentChild`."""
    environment: ClassVar = None

    def __post_init__(self) -> None:
        seconds = self.timeout_seconds
        if seconds is not None and seconds <= 0:
            raise ConfigError(f"timeout_seconds of child {self.name!r} must be > 0, got {seconds}")
        if self.function.__module__ == "__main__" or "<" in self.function.__qualname__:
            raise ConfigError(
                f"child {self.name!r} needs a function that can be imported by its name, got "
                f"{self.target}; move it to the top of a module"
            )

    @property
    def target(self) -> str:
        """Address of the function: "package.module:function"."""
        return f"{self.function.__module__}:{self.function.__qualname__}"

    def command_line(self, pipe: int) -> Sequence[str]:
        """Return the program that runs the function and writes to file descriptor `pipe`.

        Raises:
            TypeError: the argument is not JSON.
        """
        argument = json.dumps(self.argument)
        path = json.dumps(sys.path)
        return [sys.executable, "-c", _START, path, self.target, argument, str(pipe)]


Child = CommandSpec | FunctionSpec
KILLED: Final = -9
"""Exit code of a child after SIGKILL, such as from the kernel's out-of-memory killer."""


@dataclass(frozen=True, kw_only=True)
class CompletedChild:
    """Result of an ended child."""

    name: str
    exit_code: int | None = None
    """0: success; negative: the signal that ended it; None: it was not started."""
    has_timed_out: bool = False
    """Whether it was stopped at its time limit."""
    seconds: float = 0.0
    """Seconds from its start until its end was detected."""
    tail: str = ""
    """Last part of its standard output and error, combined."""
    result: Json = None
    """Return value of the function."""
    messages: tuple[Json, ...] = ()
    """Messages of the function, in order."""
    error: str | None = None
    """Exception of the function, or why the child was not started."""

    @property
    def has_succeeded(self) -> bool:
        """Whether it exited by itself, with code 0 and without an error."""
        return self.exit_code == 0 and not self.has_timed_out and self.error is None

    def describe(self) -> str:
        """Return one line about its end."""
        if self.has_succeeded:
            return f"{self.name} succeeded after {self.seconds:.1f} s"
        if self.has_timed_out:
            return f"{self.name} was stopped: it did not finish within {self.seconds:.1f} s"
        if self.error is not None:
            return f"{self.name} failed: {self.error}"
        code = self.exit_code or 0
        outcome = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        message = last_words(self.tail)
        return f"{self.name} ended {outcome}" + (f": {message}" if message else "")


_START: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from headrace.runtime.child_process import run_in_child; run_in_child(sys.argv[2:])"
)
"""Program of a function's child; its `sys.path` is the parent's."""


def run_in_child(arguments: Sequence[str]) -> None:
    """Run a function in its child; write lines with a "message", a "result" or an "error"."""
    target, argument, pipe = arguments
    with os.fdopen(int(pipe), "w", encoding="utf-8") as lines:

        def write(kind: str, value: Json) -> None:
            lines.write(json.dumps({kind: value}) + "\n")
            lines.flush()

        try:
            module, _, name = target.partition(":")
            function = attrgetter(name)(importlib.import_module(module))
            result = function(json.loads(argument), lambda message: write("message", message))
            write("result", result)
        except BaseException as error:
            write("error", f"{type(error).__name__}: {error}")
            raise  # the traceback goes to standard error


_TAIL_BYTES: Final = 8192
"""Bytes of a child's output that are kept, from its end."""
_READ_BYTES: Final = 65_536
"""Bytes per read from a pipe."""


class ChildProcess:
    """A running child in its own process group. Not thread-safe.

    It registers its pipes with a selector. Call `read` for each ready pipe, `poll` regularly until
    it returns the result, and `close` in any case.
    """

    def __init__(
        self,
        child: Child,
        selector: BaseSelector,
        on_message: Callable[[str, Json], None],
        grace_seconds: float,
        clock: Clock,
    ) -> None:
        """Start the child.

        Args:
            child: The program or function to run.
            selector: Selector for its pipes, each with this object as data.
            on_message: Called with the child's name and each message.
            grace_seconds: Time between SIGTERM and SIGKILL.
            clock: Clock of its time limit.

        Raises:
            BackendError: this system is Windows.
            OSError: the child cannot be started.
            TypeError: the argument of its function is not JSON.
        """
        check_posix(f"the child process {child.name!r}")
        self._child = child
        self._selector = selector
        self._on_message = on_message
        self._grace_seconds = grace_seconds
        self._clock = clock
        self._tail = bytearray()
        self._line = bytearray()
        self._messages: list[Json] = []
        self._result: Json = None
        self._has_result = isinstance(child, CommandSpec)  # a program returns none
        self._error: str | None = None
        self._has_timed_out = False
        self._kill_at_ns: int | None = None
        self._started_ns = clock.now_ns()
        self._process, output, results, self._lifeline = _start(child)
        self._pipes = {output: self._keep_tail, results: self._read_lines}
        for pipe in self._pipes:
            os.set_blocking(pipe, False)
            selector.register(pipe, EVENT_READ, self)

    def send(self, message: Json) -> None:
        """Send a message to a child that reads them; blocks while its pipe is full."""
        stdin = self._process.stdin
        if stdin is not None:
            with suppress(BrokenPipeError):  # `poll` returns the result
                stdin.write(json.dumps(message).encode() + b"\n")
                stdin.flush()

    def read(self, pipe: int) -> bool:
        """Read one chunk from a pipe; return whether there may be more."""
        try:
            chunk = os.read(pipe, _READ_BYTES)
        except BlockingIOError:
            return False
        if chunk:
            self._pipes[pipe](chunk)
        else:
            self._close_pipe(pipe)
        return bool(chunk)

    def poll(self) -> CompletedChild | None:
        """Return the result, or None while the child runs; stop it at its time limit."""
        if self._process.poll() is None:
            self._check_time()
            return None
        seconds = (self._clock.now_ns() - self._started_ns) / 1e9
        self._signal(signal.SIGKILL)  # its own children, which may keep its pipes open
        for pipe in tuple(self._pipes):
            while self.read(pipe):
                pass
        self.close()
        if not (self._has_result or self._error or self._has_timed_out or self._process.returncode):
            self._error = "it ended without a result"
        return CompletedChild(
            name=self._child.name,
            exit_code=self._process.returncode,
            has_timed_out=self._has_timed_out,
            seconds=seconds,
            tail=self._tail.decode("utf-8", "replace"),
            result=self._result,
            messages=tuple(self._messages),
            error=self._error,
        )

    def terminate(self) -> None:
        """Send SIGTERM to the child and its children."""
        self._signal(signal.SIGTERM)

    def stop(self) -> None:
        """Send SIGTERM now, and SIGKILL in `poll` after the grace time."""
        if self._kill_at_ns is None:
            self._kill_at_ns = self._clock.now_ns() + round(self._grace_seconds * 1e9)
            self.terminate()

    def close(self) -> None:
        """End the child and its children, and close its pipes. May be called again."""
        try:
            if self._process.poll() is None:
                self.terminate()
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(self._grace_seconds)
        finally:
            with deferred_sigint():
                self._signal(signal.SIGKILL)
                self._process.wait()
                for pipe in tuple(self._pipes):
                    self._close_pipe(pipe)
                self._lifeline.close()
                if self._process.stdin is not None:
                    with suppress(BrokenPipeError):
                        self._process.stdin.close()

    def _check_time(self) -> None:
        now_ns, limit = self._clock.now_ns(), self._child.timeout_seconds
        if self._kill_at_ns is not None:
            if now_ns >= self._kill_at_ns:
                self._signal(signal.SIGKILL)
        elif limit is not None and now_ns - self._started_ns >= limit * 1e9:
            self._has_timed_out = True
            self.stop()

    def _keep_tail(self, chunk: bytes) -> None:
        self._tail += chunk
        del self._tail[:-_TAIL_BYTES]

    def _read_lines(self, chunk: bytes) -> None:
        *lines, rest = (bytes(self._line) + chunk).split(b"\n")
        self._line = bytearray(rest)
        for line in lines:
            try:
                record = json.loads(line)
            except ValueError:
                record = None
            match record:
                case {"message": message}:
                    self._messages.append(message)
                    self._on_message(self._child.name, message)
                case {"result": result}:
                    self._result, self._has_result = result, True
                case {"error": str(error)}:
                    self._error = error
                case _:
                    self._error = f"it sent an invalid line: {line[:80]!r}"

    def _close_pipe(self, pipe: int) -> None:
        self._selector.unregister(pipe)
        del self._pipes[pipe]
        os.close(pipe)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):  # the group is empty
            os.killpg(self._process.pid, number)


def _start(child: Child) -> tuple["subprocess.Popen[bytes]", int, int, IO[bytes]]:
    """Return the process, the pipes of its output and its results, and its lifeline.

    The lifeline is the write end of a pipe. When it is closed, also by the end of this process, the
    kernel kills the child.
    """
    hangup, lifeline_end = os.pipe()
    results, results_end = os.pipe()
    lifeline = os.fdopen(lifeline_end, "wb", 0)
    try:
        process = subprocess.Popen(
            child.command_line(results_end),
            stdin=subprocess.PIPE if child.reads_messages else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=child.environment,
            pass_fds=(hangup, results_end),
            start_new_session=True,  # its children end with it; it receives no Ctrl-C
        )
        kill_at_hangup(hangup, -process.pid)
    except BaseException:
        lifeline.close()
        os.close(results)
        raise
    finally:
        os.close(hangup)
        os.close(results_end)
    with cast(IO[bytes], process.stdout) as output:
        return process, os.dup(output.fileno()), results, lifeline
