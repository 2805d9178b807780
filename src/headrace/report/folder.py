"""Run folder: session, table of steps and report of a run."""

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
_RUN_FILE: Final = re.compile(
    r"annotated[0-9.-]*\.mp4|predictions\.(jsonl|parquet)|M_[\w.-]+_P_\d+_metrics\.csv"
    r"|boxes\.(jsonl|parquet)|coco\.json|trace\.json\.gz|report\.html"
)
"""Names of the files of a run; other files in the folder belong to the user."""


def is_run_file(name: str) -> bool:
    """Return whether a name is that of a file of a run; other files belong to the user."""
    return name == SESSION or _RUN_FILE.fullmatch(name) is not None


def write_run(session: Session, folder: Path) -> Session:
    """Write session, table and report into `folder`; return the session with their names.

    A folder has the files of one run: files of an earlier session are removed unless this session
    wrote them.

    Raises:
        ConfigError: the folder cannot be written.
    """
    earlier = _list_earlier(folder)
    model = str(session.provenance.configuration.get("model", session.kind))
    metrics = metrics_file_name(model, session.provenance.pid or 0)
    outputs = (*session.outputs, REPORT, metrics, SESSION)
    session = session.model_copy(update={"outputs": outputs})
    session.save(folder / SESSION)
    write_whole(folder / metrics, metrics_csv(session))
    write_whole(folder / REPORT, render_html(session))
    _remove_earlier(folder, earlier, session)
    return session


def write_checkpoint(session: Session, folder: Path) -> None:
    """Write the record of an unfinished run into `folder`; remove files of an earlier run.

    Raises:
        ConfigError: the folder cannot be written.
    """
    earlier = _list_earlier(folder)
    session = session.model_copy(update={"outputs": (*session.outputs, SESSION)})
    session.save(folder / SESSION)
    _remove_earlier(folder, earlier, session)


def _list_earlier(folder: Path) -> tuple[str, ...]:
    """Return the files that the session in `folder` lists; empty without a session."""
    if not (folder / SESSION).is_file():
        return ()
    try:
        return Session.load(folder / SESSION).outputs
    except ConfigError:
        return ()


def _remove_earlier(folder: Path, earlier: Sequence[str], session: Session) -> None:
    sources = {Path(video.path).absolute() for video in session.inputs}
    for name in earlier:
        path = folder / name
        # The record is not trusted: inputs and files outside the folder are never removed.
        is_run_file = name not in session.outputs and _RUN_FILE.fullmatch(name) is not None
        if is_run_file and path.absolute() not in sources:
            with suppress(OSError):
                path.unlink(missing_ok=True)


def render_again(folder: Path) -> Path:
    """Render the report of a run folder again from its session; return the path of the report.

    Raises:
        ConfigError: the session cannot be read, or the folder cannot be written.
    """
    session = Session.load(folder / SESSION)
    write_whole(folder / REPORT, render_html(session))
    return folder / REPORT
