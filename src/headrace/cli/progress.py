"""Progress of long commands on stderr: a bar on a terminal, occasional lines elsewhere."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from headrace.runtime.child_process import LAUNCH_VARIABLE

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

    from headrace.cli.plain_progress import ProgressLines

_CHECK_SECONDS: Final = 1.0
"""Seconds between two checks whether a progress line is due."""
_IS_SILENCED: Final = ContextVar("is_silenced", default=False)


@contextmanager
def silenced() -> Iterator[None]:
    """Show no progress inside the block, for `--quiet`."""
    token = _IS_SILENCED.set(True)
    try:
        yield
    finally:
        _IS_SILENCED.reset(token)


def is_launched() -> bool:
    """Whether this process is a worker of a launch, whose output has no terminal."""
    return LAUNCH_VARIABLE in os.environ


def is_silenced() -> bool:
    """Whether progress is off: by `--quiet`, or in a worker of a launch, which shows it."""
    return _IS_SILENCED.get() or is_launched()


def bar_columns(*texts: str) -> "tuple[ProgressColumn | str, ...]":
    """Return the columns of a bar: bar, count, `texts` and remaining time."""
    from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn

    bar = ("{task.description}", BarColumn(), MofNCompleteColumn())
    return (*bar, *texts, TimeRemainingColumn())


@contextmanager
def progress_line(*columns: "ProgressColumn | str", is_quiet: bool) -> "Iterator[Progress]":
    """Yield a transient progress line with these columns, or the default ones of rich.

    Without a terminal, its texts and counts are written as `ProgressLines`.
    """
    from rich.console import Console
    from rich.progress import Progress

    from headrace.cli.plain_progress import PlainProgress

    console = Console(stderr=True)
    is_hidden = is_quiet or is_silenced()
    if console.is_terminal or is_hidden:
        with Progress(*columns, console=console, transient=True, disable=is_hidden) as line:
            yield line
    else:
        with progress_lines() as lines:
            yield PlainProgress(*columns, console=console, lines=lines)


@contextmanager
def progress(*, is_quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Show a bar; yield its update function (description, done, total)."""
    with progress_line(is_quiet=is_quiet) as bar:
        task = bar.add_task("starting", total=None)

        def show(description: str, done: int, total: int) -> None:
            bar.update(task, description=description, completed=done, total=total or None)

        yield show


@contextmanager
def waiting(description: str, *, is_quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Write progress lines without a terminal, and nothing on a terminal.

    For blocks that print other text, which a bar would disturb. Yields the update function
    (description, done, total).
    """
    if sys.stderr.isatty() or is_quiet or is_silenced():
        yield lambda description, done, total: None
    else:
        with progress_lines() as lines:
            lines.update(description, 0, 0)
            yield lines.update


@contextmanager
def progress_lines() -> "Iterator[ProgressLines]":
    """Yield progress lines on stderr; a line is written while the block is silent, too."""
    from headrace.cli.plain_progress import ProgressLines
    from headrace.runtime.synchronization import call_every

    lines = ProgressLines(write_line)
    with call_every(lines.write_if_due, _CHECK_SECONDS):
        yield lines


def print_above(line: "Progress", text: str) -> None:
    """Print a text above a progress line. Thread-safe."""
    if not line.console.is_terminal:
        write_line(text)  # rich would raise on a closed stderr, which ends the thread
        return
    with suppress(OSError):
        line.console.print(text, markup=False, emoji=False, highlight=False, soft_wrap=True)


def write_line(text: str) -> None:
    """Write a line to stderr, without control characters; a closed stderr is ignored."""
    text = "".join(character if character.isprintable() else "?" for character in text)
    with suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)
