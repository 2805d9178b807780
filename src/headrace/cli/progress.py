"""The progress of long commands on stderr: a bar on a terminal, elsewhere a line now and then."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from headrace.runtime.child_spec import LAUNCH_VARIABLE

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

    from headrace.cli.plain_progress import ProgressLines

_LOOK_SECONDS: Final = 1.0
_IS_SILENCED: Final = ContextVar("is_silenced", default=False)


@contextmanager
def silenced() -> Iterator[None]:
    """Show no progress of what runs inside: the option `--quiet`."""
    token = _IS_SILENCED.set(True)
    try:
        yield
    finally:
        _IS_SILENCED.reset(token)


def is_launched() -> bool:
    """Return whether a launch started this process; its output has no terminal."""
    return LAUNCH_VARIABLE in os.environ


def is_silenced() -> bool:
    """Return whether `--quiet` was given, or a launch shows the progress of this process."""
    return _IS_SILENCED.get() or is_launched()


def bar_columns(*texts: str) -> "tuple[ProgressColumn | str, ...]":
    """Return the columns of a bar with its count, then `texts`, and the time that is left."""
    from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn

    bar = ("{task.description}", BarColumn(), MofNCompleteColumn())
    return (*bar, *texts, TimeRemainingColumn())


@contextmanager
def progress_line(*columns: "ProgressColumn | str", is_quiet: bool) -> "Iterator[Progress]":
    """Yield a line of these columns, rich's own where there are none; it goes when it is over.

    Where stderr is no terminal, texts and counts of it are written as `ProgressLines`.
    """
    from rich.console import Console
    from rich.progress import Progress

    from headrace.cli.plain_progress import PlainProgress

    console = Console(stderr=True)
    if console.is_terminal or is_quiet or is_silenced():
        is_hidden = is_quiet or is_silenced()
        with Progress(*columns, console=console, transient=True, disable=is_hidden) as line:
            yield line
    else:
        with progress_lines() as lines:
            yield PlainProgress(*columns, console=console, lines=lines)


@contextmanager
def progress(*, is_quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Show a bar; yield what is called with (what, done, of how many)."""
    with progress_line(is_quiet=is_quiet) as bar:
        task = bar.add_task("starting", total=None)

        def show(what: str, done: int, of: int) -> None:
            bar.update(task, description=what, completed=done, total=of or None)

        yield show


@contextmanager
def waiting(what: str, *, is_quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Write lines that name what is waited for, where stderr is no terminal.

    Yields what may be called with (what, done, of how many). A terminal shows nothing, so that
    what is printed meanwhile stays where it is.
    """
    if sys.stderr.isatty() or is_quiet or is_silenced():
        yield lambda what, done, of: None
    else:
        with progress_lines() as lines:
            lines.update(what, 0, 0)
            yield lines.update


@contextmanager
def progress_lines() -> "Iterator[ProgressLines]":
    """Yield lines on stderr, looked at each second."""
    from headrace.cli.plain_progress import ProgressLines
    from headrace.runtime.threads import call_every

    lines = ProgressLines(write_line)
    with call_every(lines.look, _LOOK_SECONDS):
        yield lines


def print_above(line: "Progress", words: str) -> None:
    """Write words above a progress line; in a thread, too."""
    if not line.console.is_terminal:
        write_line(words)  # rich would end the thread on a closed stderr
        return
    with suppress(OSError):
        line.console.print(words, markup=False, emoji=False, highlight=False, soft_wrap=True)


def write_line(words: str) -> None:
    """Write a line to stderr; a name must not steer a terminal, and nobody may read it any more."""
    words = "".join(each if each.isprintable() else "?" for each in words)
    with suppress(OSError, ValueError):
        print(words, file=sys.stderr, flush=True)
