"""The progress of long commands: on a terminal's stderr, and nowhere else."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn


@contextmanager
def progress_line(*columns: "ProgressColumn | str", is_quiet: bool) -> "Iterator[Progress]":
    """Yield a line of these columns, rich's own where there are none; it goes when it is over."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    is_hidden = is_quiet or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=is_hidden) as line:
        yield line


@contextmanager
def progress(*, is_quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Show a bar; yield what is called with (what, done, of how many)."""
    with progress_line(is_quiet=is_quiet) as bar:
        task = bar.add_task("starting", total=None)

        def show(what: str, done: int, of: int) -> None:
            bar.update(task, description=what, completed=done, total=of or None)

        yield show
