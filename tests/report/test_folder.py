"""The run folder, written and rendered again."""

import pytest

from headrace.errors import ConfigError
from headrace.profiling.metrics_csv import metrics_csv
from headrace.profiling.session import Session
from headrace.report.folder import render_again, write_run
from headrace.report.html import render_html
from report.recorded import SOURCE, changed, record


def test_a_run_folder_holds_session_metrics_and_report(tmp_path):
    run = record(outputs=("annotated.mp4",))
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


def test_a_report_that_cannot_be_written_is_an_error_and_the_session_is_kept(tmp_path):
    (tmp_path / "report.html").mkdir()
    with pytest.raises(ConfigError, match=r"cannot write .*report\.html: is a directory; give"):
        write_run(record(), tmp_path)
    assert Session.load(tmp_path / "session.json").outcome == "complete"


def test_a_folder_that_is_used_again_holds_the_files_of_one_run(tmp_path):
    names = ("annotated-0.mp4", "annotated-1.mp4", "predictions.parquet", "trace.json.gz")
    names += ("boxes.jsonl", "boxes.parquet", "coco.json")
    kept = ("notes.txt", "head.pt")
    for name in (*names, *kept):
        (tmp_path / name).write_text("before")
    (tmp_path / "predictions.jsonl").write_text("again")
    write_run(record(outputs=(*names, *kept)), tmp_path)
    write_run(record(outputs=("predictions.jsonl",), pid=99), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        *("session.json", "report.html", "predictions.jsonl", "M_resnet50_P_99_metrics.csv"),
        "notes.txt",  # not named as ours are, whatever the record says
        "head.pt",  # a training is not lost to a later run
    }


def test_what_a_run_read_is_not_removed_though_the_run_before_had_written_it(tmp_path):
    video = tmp_path / "annotated.mp4"
    video.write_text("the source now")
    write_run(record(outputs=("annotated.mp4",)), tmp_path)
    source = changed(SOURCE, path=str(video))
    write_run(record(inputs=(source,)), tmp_path)
    assert video.exists()


def test_a_record_that_names_files_elsewhere_removes_none(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    outside = tmp_path / "annotated.mp4"
    outside.write_text("somebody else's")
    names = ("../annotated.mp4", str(outside))
    write_run(record(outputs=names), folder)
    write_run(record(), folder)
    assert outside.exists()
