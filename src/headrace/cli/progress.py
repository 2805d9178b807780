"""Progress of long commands on stderr: a bar on a terminal, occasional lines elsewhere."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from headrace.profiling.number_format import count, seconds
from headrace.runtime.child_process import LAUNCH_VARIABLE
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.fork_safety import ForkSafeLock

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, Task

LINE_SECONDS: Final = 10.0
"""Min seconds between two lines, and before the first."""
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

    from headrace.runtime.synchronization import call_every

    console = Console(stderr=True)
    is_hidden, is_plain = is_quiet or is_silenced(), not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=is_hidden or is_plain) as line:
        if is_hidden or not is_plain:
            yield line
            return
        lines = ProgressLines(write_line)

        def write() -> None:
            for task in line.tasks[-1:]:
                lines.update(plain_text(columns, task), task.completed, task.total or 0.0)

        with call_every(write, _CHECK_SECONDS):
            yield line


def plain_text(columns: "Sequence[ProgressColumn | str]", task: "Task") -> str:
    """Return the texts and counts of a bar; without columns, the description and the count."""
    from rich.progress import MofNCompleteColumn, TextColumn

    done, total = count(int(task.completed)), task.total
    counted = "" if total is None else f"{done} of {count(int(total))}"
    if not columns:
        return ", ".join(filter(None, (task.description, counted)))
    texts = []
    for column in columns:
        shown = column.text_format if type(column) is TextColumn else column
        if isinstance(shown, str):
            texts.append(shown.format(task=task))
        elif isinstance(shown, MofNCompleteColumn):
            texts.append(counted)
    return " ".join(filter(None, texts))


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
    from headrace.runtime.synchronization import call_every

    if sys.stderr.isatty() or is_quiet or is_silenced():
        yield lambda description, done, total: None
    else:
        lines = ProgressLines(write_line)
        with call_every(lines.write_if_due, _CHECK_SECONDS):
            lines.update(description, 0, 0)
            yield lines.update


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


class ProgressLines:
    """Progress lines, at most one every 10 s. Thread-safe.

    `decoding 40 of 120 frames, 30 s, about 60 s left`: description, elapsed time, and an estimate
    of the remaining time if the total is known.
    """

    def __init__(self, write: Callable[[str], None], clock: Clock = SYSTEM_CLOCK) -> None:
        """Start at zero; `write` is called with each line, without a newline."""
        self._write = write
        self._clock = clock
        self._lock = ForkSafeLock()
        self._description = "starting"
        self._start_ns = self._written_ns = clock.now_ns()
        self._phase_start = self._done = self._total = 0.0
        self._phase_start_ns = self._done_ns = self._start_ns

    def update(self, description: str, done: float, total: float) -> None:
        """Record the progress; write a line if one is due.

        Another total, or a smaller `done`, starts a new phase with its own estimate.

        Args:
            description: Text of the line.
            done: Completed units.
            total: All units; 0: unknown.
        """
        with self._lock:
            if total != self._total or done < self._done:
                self._phase_start = self._done = done
                self._total = total
                self._phase_start_ns = self._done_ns = self._clock.now_ns()
            elif done > self._done:
                self._done, self._done_ns = done, self._clock.now_ns()
            self._description = description
        self.write_if_due()

    def write_if_due(self) -> None:
        """Write a line if the last one is old enough."""
        with self._lock:
            now_ns = self._clock.now_ns()
            if now_ns - self._written_ns < LINE_SECONDS * 1e9:
                return
            self._written_ns = now_ns
            elapsed = seconds((now_ns - self._start_ns) / 1e9)
            line = f"{self._description}, {elapsed}{self._remaining(now_ns)}"
        self._write(line)

    def _remaining(self, now_ns: int) -> str:
        # Relative to the phase start: units of an earlier run, counted at once, have no rate.
        done = self._done - self._phase_start
        if done <= 0 or self._done >= self._total:
            return ""
        phase_ns = (self._done_ns - self._phase_start_ns) * (self._total - self._phase_start) / done
        remaining_ns = phase_ns - (now_ns - self._phase_start_ns)
        return f", about {seconds(max(1.0, remaining_ns / 1e9))} left" if remaining_ns > 0 else ""
