"""What runs in a child process, and how it ended, as values."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.errors import ConfigError, last_words

LAUNCH_VARIABLE: Final = "HEADRACE_LAUNCH"
"""The variable of the environment that tells a run which launch it belongs to."""

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
"""What goes between a child and its parent: as text, so that it cannot run anything."""

ChildFunction = Callable[[Json, Callable[[Json], None]], Json]
"""Given its argument and a function that sends something at once; returns its result."""


@dataclass(frozen=True, kw_only=True)
class CommandSpec:
    """A program to run as a child."""

    name: str
    """What messages call it."""
    arguments: tuple[str, ...]
    """The program and its arguments; no shell reads them."""
    timeout_seconds: float | None = None
    """After which it is ended; None: it may run for ever."""
    folder: Path | None = None
    """Where it runs; None: where we do."""
    environment: Mapping[str, str] | None = None
    """All of its variables; None: ours."""

    def __post_init__(self) -> None:
        _check_limit(self.name, self.timeout_seconds)
        if not self.arguments:
            raise ConfigError(f"child {self.name!r} needs a program to run, got no arguments")


@dataclass(frozen=True, kw_only=True)
class FunctionSpec:
    """A function to run as a child, in a new interpreter."""

    name: str
    """What messages call it."""
    function: ChildFunction
    """Imported there by its name, so it must be one of a module's own."""
    argument: Json = None
    """Goes there as JSON."""
    timeout_seconds: float | None = None
    """After which it is ended; None: it may run for ever."""
    is_fed: bool = False
    """Whether it is given more by and by, to its standard input: see `FedChild`."""

    def __post_init__(self) -> None:
        _check_limit(self.name, self.timeout_seconds)
        if self.function.__module__ == "__main__" or "<" in self.function.__qualname__:
            raise ConfigError(
                f"child {self.name!r} needs a function that can be imported by its name, got "
                f"{self.target}; move it to the top of a module"
            )

    @property
    def target(self) -> str:
        """Where the function is: "package.module:function"."""
        return f"{self.function.__module__}:{self.function.__qualname__}"


Child = CommandSpec | FunctionSpec


@dataclass(frozen=True, kw_only=True)
class CompletedChild:
    """How a child ended."""

    name: str
    exit_code: int | None
    """0: well; negative: the signal that ended it; None: it could not be started."""
    has_timed_out: bool
    """It was ended because its time was over."""
    seconds: float
    """From its start until it was seen to have ended."""
    tail: str
    """The end of what it wrote to its standard output and error, together."""
    result: Json = None
    """What a function returned."""
    messages: tuple[Json, ...] = ()
    """What a function sent before, in order."""
    error: str | None = None
    """What a function raised, or why it could not be started."""

    @property
    def is_good(self) -> bool:
        """It came to its own end, and that was no failure."""
        return self.exit_code == 0 and not self.has_timed_out and self.error is None

    def describe(self) -> str:
        """One line that says how it ended, for people."""
        if self.is_good:
            return f"{self.name} ended well after {self.seconds:.1f} s"
        if self.has_timed_out:
            return f"{self.name} was ended: it was not done within {self.seconds:.1f} s"
        if self.error is not None:
            return f"{self.name} failed: {self.error}"
        code = self.exit_code or 0
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        last = last_words(self.tail)
        return f"{self.name} ended {how}" + (f": {last}" if last else "")


def _check_limit(name: str, timeout_seconds: float | None) -> None:
    if timeout_seconds is not None and timeout_seconds <= 0:
        raise ConfigError(f"timeout_seconds of child {name!r} must be > 0, got {timeout_seconds}")
