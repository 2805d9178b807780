"""The run folder, written and rendered again."""

import pytest

from headrace.errors import ConfigError
from headrace.profiling.session import Session
from headrace.report.folder import render_again, write_run
from report.recorded import record


def test_a_run_folder_holds_session_metrics_and_report(tmp_path):
    session = write_run(record(), tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert {"session.json", "report.html"} <= names
    [metrics] = [name for name in names if name.endswith("_metrics.csv")]
    assert set(session.outputs) >= names
    assert Session.load(tmp_path / "session.json") == session
    assert (tmp_path / metrics).read_text().startswith("step,read_latency_ms,prep_latency_ms")


def test_a_report_is_rendered_again_from_the_session_alone(tmp_path):
    write_run(record(), tmp_path)
    first = (tmp_path / "report.html").read_text()
    (tmp_path / "report.html").unlink()
    assert render_again(tmp_path) == tmp_path / "report.html"
    assert (tmp_path / "report.html").read_text() == first


def test_a_folder_without_a_session_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"give the session\.json of a run folder"):
        render_again(tmp_path)


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="cannot write"):
        write_run(record(), tmp_path / "nowhere")
