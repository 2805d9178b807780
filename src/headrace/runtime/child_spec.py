"""Child processes as values: what one runs, how it ended, and what a function's child executes."""

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
"""Environment variable that holds a run's address in its launch."""

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
"""What a child and its parent exchange: as text, so that it cannot run anything."""

ChildFunction = Callable[[Json, Callable[[Json], None]], Json]
"""Called with its argument and a function that sends a message at once; returns its result."""


@dataclass(frozen=True, kw_only=True)
class CommandSpec:
    """A program to run as a child."""

    name: str
    """Its name in messages."""
    arguments: tuple[str, ...]
    """The program and its arguments; no shell reads them."""
    environment: Mapping[str, str] | None = None
    """All environment variables; None: those of this process."""
    timeout_seconds: ClassVar = None
    reads_messages: ClassVar = False

    def __post_init__(self) -> None:
        if not self.arguments:
            raise ConfigError(f"child {self.name!r} needs a program to run, got no arguments")

    def command_line(self, pipe: int) -> Sequence[str]:
        """Return the program and its arguments; it writes nothing to file descriptor `pipe`."""
        return self.arguments


@dataclass(frozen=True, kw_only=True)
class FunctionSpec:
    """A function to run as a child, in a new interpreter."""

    name: str
    """Its name in messages."""
    function: ChildFunction
    """A function at the top of a module: the child imports it by its name."""
    argument: Json = None
    """Sent as JSON."""
    timeout_seconds: float | None = None
    """The child is ended after this long; None: never."""
    reads_messages: bool = False
    """Whether it gets further messages, on its standard input: see `PersistentChild`."""
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
        """The function's address: "package.module:function"."""
        return f"{self.function.__module__}:{self.function.__qualname__}"

    def command_line(self, pipe: int) -> Sequence[str]:
        """Return the program and arguments that run it; it writes to file descriptor `pipe`.

        Raises:
            TypeError: the argument is not JSON.
        """
        argument = json.dumps(self.argument)
        path = json.dumps(sys.path)
        return [sys.executable, "-c", _START, path, self.target, argument, str(pipe)]


Child = CommandSpec | FunctionSpec
KILLED: Final = -9
"""Exit code of a child that got SIGKILL, as from the kernel's out-of-memory killer."""


@dataclass(frozen=True, kw_only=True)
class CompletedChild:
    """How a child ended."""

    name: str
    exit_code: int | None = None
    """0: success; negative: the signal that ended it; None: it could not be started."""
    has_timed_out: bool = False
    """It was ended because its time was over."""
    seconds: float = 0.0
    """From its start until its end was noticed."""
    tail: str = ""
    """The end of its standard output and error, together."""
    result: Json = None
    """What a function returned."""
    messages: tuple[Json, ...] = ()
    """What a function sent before, in order."""
    error: str | None = None
    """What a function raised, or why the child could not be started."""

    @property
    def has_succeeded(self) -> bool:
        """It exited by itself, with code 0 and without an error."""
        return self.exit_code == 0 and not self.has_timed_out and self.error is None

    def describe(self) -> str:
        """Return how it ended, in one line."""
        if self.has_succeeded:
            return f"{self.name} ended well after {self.seconds:.1f} s"
        if self.has_timed_out:
            return f"{self.name} was ended: it was not done within {self.seconds:.1f} s"
        if self.error is not None:
            return f"{self.name} failed: {self.error}"
        code = self.exit_code or 0
        outcome = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        last = last_words(self.tail)
        return f"{self.name} ended {outcome}" + (f": {last}" if last else "")


_START: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from headrace.runtime.child_spec import run_in_child; run_in_child(sys.argv[2:])"
)
"""Program of a function's child; it searches the folders of its parent's `sys.path`."""


def run_in_child(arguments: Sequence[str]) -> None:
    """Run a function in its child; each line written has a "message", "result" or "error"."""
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
