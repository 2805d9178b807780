"""The run folder: everything a recorded session is rendered into."""

from pathlib import Path

from headrace.errors import ConfigError
from headrace.profiling.record import metrics_csv, metrics_file_name
from headrace.profiling.session import Session
from headrace.report.html import render_html

SESSION = "session.json"
REPORT = "report.html"


def write_run(session: Session, folder: Path) -> Session:
    """Write session, metrics and report into `folder`; return the session with their names.

    Raises:
        ConfigError: the folder cannot be written.
    """
    made = session.provenance
    metrics = metrics_file_name(str(made.configuration.get("model", session.kind)), made.pid or 0)
    outputs = (*session.outputs, REPORT, metrics, SESSION)
    session = session.model_copy(update={"outputs": outputs})
    session.save(folder / SESSION)
    _write(folder / metrics, metrics_csv(session))
    _write(folder / REPORT, render_html(session))
    return session


def render_again(folder: Path) -> Path:
    """Render the report of a run folder anew from its session; return where it lies.

    Raises:
        ConfigError: there is no session to read, or the folder cannot be written.
    """
    session = Session.load(folder / SESSION)
    _write(folder / REPORT, render_html(session))
    return folder / REPORT


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"cannot write {path}: {(error.strerror or str(error)).lower()}; "
            "give a folder that can be written to"
        ) from error
