"""The workers of a launch on one screen; as plain lines where nobody watches."""

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from headrace.cli.progress import is_silenced, waiting
from headrace.cli.signals import INTERRUPTED, TERMINATED

if TYPE_CHECKING:
    from headrace.runs.launch.launching import WorkerEvent
    from headrace.runtime.child_spec import CompletedChild

_LINE_SECONDS: Final = 10.0
"""Of a run, between two lines about its progress where these are not overwritten."""


class LaunchScreen:
    """Shows on stderr how each worker is: `with LaunchScreen(names) as screen: ...`."""

    def __init__(self, names: list[str], *, is_quiet: bool) -> None:
        """Nothing is shown yet.

        Args:
            names: Of the workers.
            is_quiet: Show nothing.
        """
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        console = Console(stderr=True)
        self._is_quiet = is_quiet = is_quiet or is_silenced()
        self._is_live = console.is_terminal and not is_quiet
        columns = (
            SpinnerColumn(finished_text=" "),
            TextColumn("{task.description}", markup=False),
            TextColumn("{task.fields[how]}", markup=False),
            TimeElapsedColumn(),
        )
        self._progress = Progress(*columns, console=console, disable=not self._is_live)
        self._tasks: dict[str, Any] = {
            name: self._progress.add_task(name, total=1, how="loading") for name in names
        }
        self._loading = ExitStack()
        self._told: dict[str, float] = dict.fromkeys(names, 0.0)

    def news(self, news: "WorkerEvent") -> None:
        """Show what a worker told."""
        if news.state == "ready":
            self._say(news.worker, "ready, waits for the others", is_worth_a_line=True)
        elif news.frames:
            rate = f", {news.frames / news.seconds:.1f} frames/s" if news.seconds else ""
            is_due = news.seconds >= self._told[news.worker] + _LINE_SECONDS
            if is_due:
                self._told[news.worker] = news.seconds
            self._say(news.worker, f"{news.frames:,} frames{rate}", is_worth_a_line=is_due)

    def begun(self) -> None:
        """All are ready."""
        self._loading.close()
        if not self._is_quiet and not self._is_live:
            print("all are ready and begin", file=sys.stderr, flush=True)

    def ended(self, ending: "CompletedChild") -> None:
        """Show how one ended."""
        from headrace.runs.launch.launch_record import killed_words

        code = ending.exit_code
        how = "done" if code == 0 else f"ended with exit code {code}"
        if code in (INTERRUPTED, TERMINATED):
            how = "stopped"
        if code is None or code < 0:
            how = "cannot be started" if code is None else killed_words(code)
        self._progress.update(self._tasks[ending.name], completed=1)
        self._say(ending.name, how, is_worth_a_line=True)

    def _say(self, name: str, how: str, *, is_worth_a_line: bool) -> None:
        from headrace.report.text import printable

        how = printable(how)
        if self._is_live:
            self._progress.update(self._tasks[name], how=how)
        elif is_worth_a_line and not self._is_quiet:
            print(f"{name}: {how}", file=sys.stderr, flush=True)

    def __enter__(self) -> "LaunchScreen":
        self._progress.start()
        if not self._is_live:
            self._loading.enter_context(waiting("loading the workers", is_quiet=self._is_quiet))
        return self

    def __exit__(self, *_: object) -> None:
        self._loading.close()
        self._progress.stop()
