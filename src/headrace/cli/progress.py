"""The progress bar of long commands."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(*, is_quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Show a bar on a terminal's stderr; yield what is called with (what, done, of how many)."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    is_hidden = is_quiet or not console.is_terminal
    with Progress(console=console, transient=True, disable=is_hidden) as bar:
        task = bar.add_task("starting", total=None)

        def show(what: str, done: int, of: int) -> None:
            bar.update(task, description=what, completed=done, total=of or None)

        yield show
