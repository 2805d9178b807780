"""How far a suite is, on stderr: a line that changes on a terminal, else a line for each end."""

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from headrace.cli.progress import is_silenced, progress_lines

if TYPE_CHECKING:
    from headrace.bench.suite.suite_record import BenchmarkOutcome
    from headrace.bench.suite.suite_selection import Planned
    from headrace.cli.plain_progress import ProgressLines


class SuiteProgress:
    """Shows what is measured: `with SuiteProgress(is_quiet=False) as screen: ...`."""

    def __init__(self, *, is_quiet: bool) -> None:
        """Nothing is shown yet."""
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        console = Console(stderr=True)
        self._is_quiet = is_quiet = is_quiet or is_silenced()
        self._is_live = console.is_terminal and not is_quiet
        self._open = ExitStack()
        self._lines: ProgressLines | None = None
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False))
        self._progress = Progress(
            *columns,
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not self._is_live,
        )
        self._task: Any = None
        self._what = ""

    def begin(self, planned: "Planned", number: int, of: int) -> None:
        """Show which one begins."""
        self._what = f"{number} of {of}: {planned.benchmark.name}"
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(self._what, total=None)
        if self._lines is not None:
            self._lines.update(self._what, 0, 0)

    def progress(self, what: str, done: int, of: int) -> None:
        """Show which turn it is at."""
        from headrace.report.text import printable

        if self._task is not None:
            turn = f" ({done + 1} of {of})" if of else ""
            words = printable(f"{self._what}, {what}{turn}")
            self._progress.update(self._task, description=words)
            if self._lines is not None:
                self._lines.update(words, done, of)

    def end(self, result: "BenchmarkOutcome", number: int, of: int) -> None:
        """Say how one ended, in a line that stays."""
        from headrace.profiling.number_format import seconds
        from headrace.report.text import printable

        why = f": {result.why}" if result.why else ""
        took = f" after {seconds(result.seconds)}" if result.seconds is not None else ""
        line = printable(f"{number} of {of}: {result.experiment} {result.outcome}{took}{why}")
        if self._is_live:
            self._progress.console.print(line, markup=False, highlight=False)
        elif not self._is_quiet:
            print(line, file=sys.stderr, flush=True)

    def __enter__(self) -> "SuiteProgress":
        self._progress.start()
        if not self._is_live and not self._is_quiet:
            self._lines = self._open.enter_context(progress_lines())
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()
        self._progress.stop()
