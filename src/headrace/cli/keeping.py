"""What a run came to, kept in its folder; or said, where the folder cannot take it."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from headrace.profiling.session import Session


def keep(session: "Session", out: Path, *, is_quiet: bool) -> "Session":
    """Write the folder of a run; return the session with the names of its files.

    Raises:
        typer.Exit: it cannot be written, as the disk is full. What it came to and why was printed
            then.
    """
    from headrace.errors import ConfigError
    from headrace.report.folder import write_run
    from headrace.report.text import render_text

    try:
        return write_run(session, out)
    except ConfigError as error:
        print(session.model_dump_json() if is_quiet else render_text(session))
        # An extraction names its own error with what is done, when it concludes.
        own_error = None if session.kind == "extract" else session.error
        for words in (own_error, error):
            if words is not None:
                print(f"headrace: {words}", file=sys.stderr)
        raise typer.Exit(1) from error
