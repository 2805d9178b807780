"""The run folder, written and rendered again."""

import pytest

from headrace.errors import ConfigError
from headrace.profiling.record import metrics_csv
from headrace.profiling.session import Session
from headrace.report.folder import render_again, write_run
from headrace.report.html import render_html
from report.recorded import record


def test_a_run_folder_holds_session_metrics_and_report(tmp_path):
    run = record().model_copy(update={"outputs": ("annotated.mp4",)})
    session = write_run(run, tmp_path)
    metrics = f"M_{run.provenance.configuration['model']}_P_{run.provenance.pid}_metrics.csv"
    assert {path.name for path in tmp_path.iterdir()} == {"session.json", "report.html", metrics}
    assert session.outputs == ("annotated.mp4", "report.html", metrics, "session.json")
    assert Session.load(tmp_path / "session.json") == session
    assert (tmp_path / metrics).read_text() == metrics_csv(run)
    assert (tmp_path / "report.html").read_text() == render_html(session)


def test_a_run_of_no_step_is_written_too(tmp_path):
    run = record(steps=0, warmup_steps=0, outcome="failed", error="it is damaged")
    write_run(run, tmp_path)
    assert Session.load(tmp_path / "session.json").error == "it is damaged"
    assert "it is damaged" in (tmp_path / "report.html").read_text()


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


def test_a_report_that_cannot_be_written_is_an_error_and_the_session_is_kept(tmp_path):
    (tmp_path / "report.html").mkdir()
    with pytest.raises(ConfigError, match=r"cannot write .*report\.html: is a directory; give"):
        write_run(record(), tmp_path)
    assert Session.load(tmp_path / "session.json").outcome == "complete"
