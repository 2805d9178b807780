"""The run folder: written, and its report rendered again."""

import pytest

from headrace.errors import ConfigError
from headrace.profiling.metrics import metrics_csv
from headrace.profiling.session import Session
from headrace.report.folder import render_again, render_html, write_run
from report.recorded import SOURCE, changed, record


def test_a_run_folder_has_session_table_and_report(tmp_path):
    run = record(outputs=("annotated.mp4",))
    session = write_run(run, tmp_path)
    metrics = f"M_{run.provenance.configuration['model']}_P_{run.provenance.pid}_metrics.csv"
    assert {path.name for path in tmp_path.iterdir()} == {"session.json", "report.html", metrics}
    assert session.outputs == ("annotated.mp4", "report.html", metrics, "session.json")
    assert Session.load(tmp_path / "session.json") == session
    assert (tmp_path / metrics).read_text() == metrics_csv(run)
    assert (tmp_path / "report.html").read_text() == render_html(session)


def test_a_run_without_steps_is_written(tmp_path):
    run = record(steps=0, warmup_steps=0, outcome="failed", error="it is damaged")
    write_run(run, tmp_path)
    assert Session.load(tmp_path / "session.json").error == "it is damaged"
    assert "it is damaged" in (tmp_path / "report.html").read_text()


def test_a_report_is_rendered_again_from_the_session(tmp_path):
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


def test_a_reused_folder_has_the_files_of_one_run(tmp_path):
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
        "notes.txt",  # not a name of a run file, although the record lists it
        "head.pt",  # a later run does not remove a trained head
    }


def test_an_input_is_not_removed_although_an_earlier_run_wrote_it(tmp_path):
    video = tmp_path / "annotated.mp4"
    video.write_text("the source now")
    write_run(record(outputs=("annotated.mp4",)), tmp_path)
    source = changed(SOURCE, path=str(video))
    write_run(record(inputs=(source,)), tmp_path)
    assert video.exists()


def test_files_outside_the_folder_are_not_removed(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    outside = tmp_path / "annotated.mp4"
    outside.write_text("of another program")
    names = ("../annotated.mp4", str(outside))
    write_run(record(outputs=names), folder)
    write_run(record(), folder)
    assert outside.exists()
