"""What a run came to, kept in its folder; or said, where the folder cannot take it."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.profiling.session import Session


def keep(session: "Session", out: Path, *, is_quiet: bool) -> "Session":
    """Write the folder of a run; return the session with the names of its files.

    Raises:
        ConfigError: it cannot be written, as the disk is full. What it came to was printed then, as
            it would have been.
    """
    from headrace.errors import ConfigError
    from headrace.report.folder import write_run
    from headrace.report.text import render_text

    try:
        return write_run(session, out)
    except ConfigError:
        print(session.model_dump_json() if is_quiet else render_text(session))
        raise
