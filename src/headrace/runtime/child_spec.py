"""Child processes as values: what to run, how it ended, and the entry point of functions."""

import importlib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import ClassVar, Final

from headrace.errors import ConfigError, last_words

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
    "from headrace.runtime.child_spec import run_in_child; run_in_child(sys.argv[2:])"
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
