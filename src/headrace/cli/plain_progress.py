"""Progress as plain lines, for a stderr that is not a terminal."""

from collections.abc import Callable
from typing import Any, Final

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, ProgressColumn, Task, TaskID, TextColumn

from headrace.profiling.number_format import count, seconds
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.fork_safety import ForkSafeLock

LINE_SECONDS: Final = 10.0
"""Min seconds between two lines, and before the first."""


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


class PlainProgress(Progress):
    """rich `Progress` that draws nothing and passes the text of its columns to `ProgressLines`."""

    def __init__(self, *columns: ProgressColumn | str, console: Console, lines: ProgressLines):
        """Create it with the columns of a bar, of which texts and counts are written.

        Without columns, the description and the count are.
        """
        self._separator = " " if columns else ", "
        columns = columns or ("{task.description}", MofNCompleteColumn())
        super().__init__(*columns, console=console, disable=True)
        self._lines = lines

    def add_task(self, description: str, *more: Any, **options: Any) -> TaskID:
        """Add a task."""
        task_id = super().add_task(description, *more, **options)
        self._update_line()
        return task_id

    def update(self, task_id: TaskID, **changes: Any) -> None:
        """Update the progress of a task."""
        super().update(task_id, **changes)
        self._update_line()

    def _update_line(self) -> None:
        task = self.tasks[-1]
        texts = filter(None, (_column_text(column, task) for column in self.columns))
        self._lines.update(self._separator.join(texts), task.completed, task.total or 0.0)


def _column_text(column: ProgressColumn | str, task: Task) -> str:
    if isinstance(column, str):
        return column.format(task=task)
    if type(column) is TextColumn:
        return column.text_format.format(task=task)
    if isinstance(column, MofNCompleteColumn):
        total, done = task.total, count(int(task.completed))
        return "" if total is None else f"{done} of {count(int(total))}"
    return ""
