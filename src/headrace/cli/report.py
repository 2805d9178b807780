"""`headrace report`: the page of a recorded run, rendered again."""

from pathlib import Path
from typing import Annotated

import typer


def report(
    run_dir: Annotated[Path, typer.Argument(help="Folder of a run, with its session.json.")],
    text: Annotated[
        bool, typer.Option("--text", help="Print it as text instead of writing report.html.")
    ] = False,
) -> None:
    """Render the report of a run folder again."""
    from headrace.profiling.session import Session
    from headrace.report.folder import SESSION, render_again
    from headrace.report.text import render_text

    if text:
        print(render_text(Session.load(run_dir / SESSION)), end="")
        return
    print(f"Report: {render_again(run_dir)}")
