"""Progress of a launch on stderr: a screen on a terminal, else plain lines."""

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from headrace.cli.progress import is_silenced, waiting
from headrace.cli.signals import INTERRUPTED, TERMINATED

if TYPE_CHECKING:
    from headrace.runs.launch.launching import WorkerEvent
    from headrace.runtime.child_spec import CompletedChild

_LINE_SECONDS: Final = 10.0
"""Time of a run between two plain progress lines."""


class LaunchScreen:
    """State of each worker on stderr: `with LaunchScreen(names) as screen: ...`."""

    def __init__(self, names: list[str], *, is_quiet: bool) -> None:
        """Prepare the screen.

        Args:
            names: Names of the workers.
            is_quiet: Print nothing.
        """
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        console = Console(stderr=True)
        self._is_quiet = is_quiet = is_quiet or is_silenced()
        self._is_live = console.is_terminal and not is_quiet
        columns = (
            SpinnerColumn(finished_text=" "),
            TextColumn("{task.description}", markup=False),
            TextColumn("{task.fields[state]}", markup=False),
            TimeElapsedColumn(),
        )
        self._progress = Progress(*columns, console=console, disable=not self._is_live)
        self._tasks: dict[str, Any] = {
            name: self._progress.add_task(name, total=1, state="loading") for name in names
        }
        self._loading = ExitStack()
        self._last_line_seconds: dict[str, float] = dict.fromkeys(names, 0.0)

    def show_event(self, event: "WorkerEvent") -> None:
        """Show an event of a worker."""
        if event.state == "ready":
            self._show(event.worker, "ready, waits for the others", is_line_due=True)
        elif event.frames:
            rate = f", {event.frames / event.seconds:.1f} frames/s" if event.seconds else ""
            is_due = event.seconds >= self._last_line_seconds[event.worker] + _LINE_SECONDS
            if is_due:
                self._last_line_seconds[event.worker] = event.seconds
            self._show(event.worker, f"{event.frames:,} frames{rate}", is_line_due=is_due)

    def show_start(self) -> None:
        """Show the common start."""
        self._loading.close()
        if not self._is_quiet and not self._is_live:
            print("all are ready and start", file=sys.stderr, flush=True)

    def show_end(self, ending: "CompletedChild") -> None:
        """Show the end of a worker."""
        from headrace.runs.launch.launch_record import killed_words

        code = ending.exit_code
        state = "done" if code == 0 else f"ended with exit code {code}"
        if code in (INTERRUPTED, TERMINATED):
            state = "stopped"
        if code is None or code < 0:
            state = "cannot be started" if code is None else killed_words(code)
        self._progress.update(self._tasks[ending.name], completed=1)
        self._show(ending.name, state, is_line_due=True)

    def _show(self, name: str, state: str, *, is_line_due: bool) -> None:
        from headrace.report.text import printable

        state = printable(state)
        if self._is_live:
            self._progress.update(self._tasks[name], state=state)
        elif is_line_due and not self._is_quiet:
            print(f"{name}: {state}", file=sys.stderr, flush=True)

    def __enter__(self) -> "LaunchScreen":
        self._progress.start()
        if not self._is_live:
            self._loading.enter_context(waiting("loading the workers", is_quiet=self._is_quiet))
        return self

    def __exit__(self, *_: object) -> None:
        self._loading.close()
        self._progress.stop()
