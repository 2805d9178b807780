"""The run folder: everything a recorded session is rendered into."""

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from headrace.atomic_file import write_whole
from headrace.errors import ConfigError
from headrace.profiling.metrics_csv import metrics_csv, metrics_file_name
from headrace.profiling.session import Session
from headrace.report.html import render_html

SESSION = "session.json"
REPORT = "report.html"
_OURS: Final = re.compile(
    r"annotated[0-9.-]*\.mp4|predictions\.(jsonl|parquet)|M_[\w.-]+_P_\d+_metrics\.csv"
    r"|boxes\.parquet|coco\.json|trace\.json\.gz|report\.html"
)
"""What a run calls its files; all else in a folder is the user's."""


def write_run(session: Session, folder: Path) -> Session:
    """Write session, metrics and report into `folder`; return the session with their names.

    Files that the session before wrote there, by its own record, and that this one did not write
    again, are removed: one folder holds one run.

    Raises:
        ConfigError: the folder cannot be written.
    """
    before = _written_before(folder)
    made = session.provenance
    metrics = metrics_file_name(str(made.configuration.get("model", session.kind)), made.pid or 0)
    outputs = (*session.outputs, REPORT, metrics, SESSION)
    session = session.model_copy(update={"outputs": outputs})
    session.save(folder / SESSION)
    write_whole(folder / metrics, metrics_csv(session))
    write_whole(folder / REPORT, render_html(session))
    _remove_older(folder, before, session)
    return session


def write_checkpoint(session: Session, folder: Path) -> None:
    """Write the record of a run that goes on into `folder`, in place of an older run's files.

    Raises:
        ConfigError: the folder cannot be written.
    """
    before = _written_before(folder)
    session = session.model_copy(update={"outputs": (*session.outputs, SESSION)})
    session.save(folder / SESSION)
    _remove_older(folder, before, session)


def _written_before(folder: Path) -> tuple[str, ...]:
    """The files that the session in `folder` says it wrote; none where there is no session."""
    if not (folder / SESSION).is_file():
        return ()
    try:
        return Session.load(folder / SESSION).outputs
    except ConfigError:
        return ()


def _remove_older(folder: Path, before: Sequence[str], session: Session) -> None:
    sources = {Path(video.path).absolute() for video in session.inputs}
    for name in before:
        path = folder / name
        # What a file says is not trusted: nothing outside the folder, and nothing that was read.
        is_ours = name not in session.outputs and _OURS.fullmatch(name) is not None
        if is_ours and path.absolute() not in sources:
            with suppress(OSError):
                path.unlink(missing_ok=True)


def render_again(folder: Path) -> Path:
    """Render the report of a run folder anew from its session; return where it lies.

    Raises:
        ConfigError: there is no session to read, or the folder cannot be written.
    """
    session = Session.load(folder / SESSION)
    write_whole(folder / REPORT, render_html(session))
    return folder / REPORT
