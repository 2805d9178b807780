"""Progress as plain lines, for a stderr that is no terminal."""

from collections.abc import Callable
from typing import Any, Final

from rich.console import Console
from rich.progress import (
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
)

from headrace.profiling.number_format import count, seconds
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.fork_safety import ForkSafeLock

LINE_SECONDS: Final = 10.0
"""Between two lines, at least, and before the first one."""


class ProgressLines:
    """How far some work is, as lines, at most one every 10 s. Thread-safe.

    `decoding 40 of 120 frames, 30 s, about 60 s left`: how long it took, and how long it takes yet,
    which is estimated from what is done of a known amount.
    """

    def __init__(self, write: Callable[[str], None], clock: Clock = SYSTEM_CLOCK) -> None:
        """Nothing is done yet; `write` is given each line, without its end."""
        self._write = write
        self._clock = clock
        self._lock = ForkSafeLock()
        self._words = "starting"
        self._began_ns = self._written_ns = clock.now_ns()
        self._first = self._done = self._of = 0.0
        self._phase_ns = self._done_ns = self._began_ns

    def update(self, words: str, done: float, of: float) -> None:
        """Take in how far it is, in words and numbers (`of` 0: unknown); write it if it is time.

        Another amount, or less done than before, begins another phase, with an estimate of its own.
        """
        with self._lock:
            if of != self._of or done < self._done:
                self._begin_phase(done, of)
            elif done > self._done:
                self._done, self._done_ns = done, self._clock.now_ns()
            self._words = words
        self.look()

    def look(self) -> None:
        """Write how far it is, if it is time."""
        with self._lock:
            now_ns = self._clock.now_ns()
            if now_ns - self._written_ns < LINE_SECONDS * 1e9:
                return
            self._written_ns = now_ns
            line = f"{self._words}, {seconds((now_ns - self._began_ns) / 1e9)}{self._left(now_ns)}"
        self._write(line)

    def _begin_phase(self, done: float, of: float) -> None:
        self._first = self._done = done
        self._of = of
        self._phase_ns = self._done_ns = self._clock.now_ns()

    def _left(self, now_ns: int) -> str:
        done = self._done - self._first
        if done <= 0 or self._done >= self._of:
            return ""
        whole_ns = (self._done_ns - self._phase_ns) * (self._of - self._first) / done
        left_ns = whole_ns - (now_ns - self._phase_ns)
        # What an earlier run did is counted at once: no rate of this one.
        return f", about {seconds(max(1.0, left_ns / 1e9))} left" if left_ns > 0 else ""


class PlainProgress(Progress):
    """A `Progress` that draws nothing, and hands what its columns say to `ProgressLines`."""

    def __init__(self, *columns: ProgressColumn | str, console: Console, lines: ProgressLines):
        """Take the columns of a bar, of which texts and counts are written; none: both."""
        self._between = " " if columns else ", "
        columns = columns or ("{task.description}", MofNCompleteColumn())
        super().__init__(*columns, console=console, disable=True)
        self._lines = lines

    def add_task(self, description: str, *more: Any, **options: Any) -> TaskID:
        """Begin a task."""
        number = super().add_task(description, *more, **options)
        self._tell()
        return number

    def update(self, task_id: TaskID, **changes: Any) -> None:
        """Take in how far a task is."""
        super().update(task_id, **changes)
        self._tell()

    def _tell(self) -> None:
        task = self.tasks[-1]
        words = self._between.join(filter(None, (_shown(column, task) for column in self.columns)))
        self._lines.update(words, task.completed, task.total or 0.0)


def _shown(column: ProgressColumn | str, task: Task) -> str:
    if isinstance(column, str):
        return column.format(task=task)
    if type(column) is TextColumn:
        return column.text_format.format(task=task)
    if isinstance(column, MofNCompleteColumn):
        total, done = task.total, count(int(task.completed))
        return "" if total is None else f"{done} of {count(int(total))}"
    return ""
