"""The run folder: written, and its HTML report."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from plotly.offline import get_plotlyjs

from headrace.errors import ConfigError
from headrace.profiling.input_records import LostFrame
from headrace.profiling.metrics import metrics_csv
from headrace.profiling.session import Session
from headrace.report.folder import render_again, render_html, write_checkpoint, write_run
from report.recorded import SOURCE, changed, changed_all, record


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


def test_a_run_that_ends_before_its_first_result_keeps_the_files_of_an_earlier_run(tmp_path):
    write_run(record(outputs=("predictions.jsonl",)), tmp_path)
    (tmp_path / "predictions.jsonl").write_text("row")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    failed = record(steps=0, outcome="failed", error="no frame", outputs=())
    for kind in ("live", "run"):
        write_checkpoint(changed(failed, kind=kind), tmp_path)
        assert write_run(changed(failed, kind=kind), tmp_path).outputs == ()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


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


HOSTILE = "</script><script>hurt()</script><img src=x onerror=hurt()>\"'&{{7*7}}<!--\u2028"


class Reader(HTMLParser):
    """Collects tags, scripts and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text = ""
        self._is_script = False
        self._is_hidden = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._is_script = tag == "script"
        self._is_hidden = tag in ("script", "style")
        if tag in ("th", "td"):
            self.text += " "
        if self._is_script:
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._is_script = self._is_hidden = False

    def handle_data(self, data: str) -> None:
        if self._is_script:
            self.scripts[-1] += data
        elif not self._is_hidden:
            self.text += data


def hostile() -> Session:
    return record(
        steps=60,
        inputs=(changed(SOURCE, path=HOSTILE),),
        configuration={"model": HOSTILE, HOSTILE: HOSTILE},
        command=("headrace", "run", HOSTILE),
        versions={HOSTILE: HOSTILE},
        outcome="failed",
        error=HOSTILE,
        lost=(LostFrame(index=7, pts_seconds=0.2, cause=HOSTILE),),
        outputs=(HOSTILE,),
        queues=changed_all(record().queues, name=HOSTILE),
    )


CASES = {
    "complete": record(),
    "interrupted": record(steps=30, outcome="interrupted"),
    "failed at once": record(steps=0, outcome="failed", error="no space left", queues=()),
    "one step": record(steps=1, warmup_steps=0),
    "hostile": hostile(),
    "a video that was not opened": record(
        steps=12,
        inputs=(SOURCE, changed(SOURCE, path="bad.mp4", codec="", height=0, width=0)),
    ),
}


@pytest.fixture(params=CASES, scope="module")
def reader(request: pytest.FixtureRequest) -> Reader:
    return Reader(render_html(CASES[request.param]))


def test_the_page_has_three_scripts_and_plotly_once(reader):
    scripts = reader.scripts
    assert len(scripts) == 3
    assert [script == get_plotlyjs() for script in scripts] == [False, True, False]


def test_the_page_has_no_external_references(reader):
    for tag, attributes in reader.tags:
        assert not {"src", "href", "srcset", "data", "action"} & set(attributes), tag
        assert not [name for name in attributes if name.startswith("on")], tag


def test_the_policy_allows_these_scripts_and_no_network(reader):
    (policy,) = [
        attributes["content"]
        for tag, attributes in reader.tags
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    digests = (hashlib.sha256(script.encode()).digest() for script in reader.scripts[1:])
    hashes = [f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests]
    assert policy == (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        f"script-src {' '.join(hashes)}"
    )


def test_every_figure_has_its_element(reader):
    figures: dict[str, Any] = json.loads(reader.scripts[0])
    ids = [attributes.get("id") for _, attributes in reader.tags]
    assert sorted(f"chart-{name}" for name in figures) == sorted(
        name for name in ids if name and name.startswith("chart-")
    )


def test_hostile_names_are_shown_as_text():
    reader = Reader(render_html(hostile()))
    assert "hurt()" not in "".join(reader.scripts[1:])
    assert "img" not in [tag for tag, _ in reader.tags]
    assert reader.text.count("<img src=x onerror=hurt()>") >= 10
    assert "{{7*7}}" in reader.text


def test_numbers_stay_with_their_units():
    [verdict] = re.findall(r"<h1 class=\"verdict\">(Bound by.*?)</h1>", render_html(record()))
    assert "100\N{NO-BREAK SPACE}% of" in verdict
    assert " %" not in verdict


def test_damaged_frames_are_listed():
    damaged = (
        LostFrame(index=1200, pts_seconds=40.04, cause="error while decoding MB 12 3"),
        LostFrame(index=1201, pts_seconds=None, cause="concealed"),
    )
    text = Reader(render_html(record(steps=20, lost=damaged))).text
    rows = " ".join(text[text.find("Damaged: 2 frames") :].split())
    first = "frame 1,200 40.040 s error while decoding MB 12 3"
    assert f"frames time reason {first} frame 1,201" in rows


def test_the_list_of_damaged_frames_is_limited():
    causes = ("lost 0", "lost 1") * 1000
    damaged = (LostFrame(index=2 * n, pts_seconds=None, cause=c) for n, c in enumerate(causes))
    text = Reader(render_html(record(steps=20, lost=tuple(damaged)))).text
    assert text.count("lost") == 500
    assert "The first 500 of 2,000; session.json lists them all." in text


FAILURES = {
    "failed at once": ("The run failed. no space left", "Fewer than two steps were measured"),
    "interrupted": ("The run was interrupted.",),
    "a video that was not opened": ("not known: it could not be opened", "in the video"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_failures_are_on_the_page(name):
    text = Reader(render_html(CASES[name])).text
    assert [words for words in FAILURES[name] if words not in text] == []


def test_the_page_of_a_session_is_reproducible():
    assert render_html(record(steps=20)) == render_html(record(steps=20))
