"""The first page: the largest gain of the whole first, then parts, then what shows none."""

import json

from bench.shown import check_text
from bench.suite.fakes import ALL, FAILING, LOADING, MODEL, NEVER, WHOLE, WORK
from bench.suite.records import contest, result, write_suite
from headrace.bench.suite.ranking import rank
from headrace.bench.suite.suite_page import (
    differing,
    render_suite,
    render_suite_text,
    suite_json,
    write_page,
)
from headrace.bench.suite.suite_record import read_suite

FAILED = result(FAILING, outcome="failed", why="the third frame cannot be shown")


def written(folder, **records):
    """Return a suite with planted gains that lies in a folder."""
    measured = {
        WHOLE: contest(1.5),
        MODEL: contest(2.0),
        LOADING: contest(3.0),
        WORK: contest(1.01, cores=1),
    }
    by_name = {each.name: each for each in measured}
    measured |= {by_name[name]: record for name, record in records.items()}
    impossible = result(NEVER, outcome="not possible", why="it takes no videos")
    return write_suite(folder, measured, FAILED, impossible)


def damaged(folder):
    """One record that is damaged, and one that is gone."""
    suite = written(folder)
    (folder / "whole.json").write_text("{")
    (folder / "loading.json").unlink()
    return suite


def busy(gain):
    return contest(gain, others=2.0)


CASES = {
    "gains of all kinds": written,
    "a stage that does not set the pace": lambda at: written(at, model=contest(1.04)),
    "shares of another model": lambda at: written(at, model=contest(2.0, model="resnet50")),
    "some is uncertain": lambda at: written(at, whole=busy(1.5), work=busy(1.0)),
    "all is uncertain": lambda at: write_suite(at, {WHOLE: busy(1.5), MODEL: busy(1.0)}),
    "no work of stages": lambda at: write_suite(at, {MODEL: contest(2.0)}),
    "nothing was measured": lambda at: write_suite(at, {}, FAILED),
}


def test_the_text_is_the_first_page(tmp_path):
    lines = []
    for number, (case, make) in enumerate(CASES.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        lines += [f"# {case}", "", render_suite_text(rank(ALL, make(folder), folder))]
    check_text("suite", "\n".join(lines))


def test_the_records_alone_give_the_same_page_again(tmp_path):
    first = render_suite(rank(ALL, written(tmp_path), tmp_path))
    path = write_page(rank(ALL, read_suite(tmp_path), tmp_path), tmp_path)
    assert path.read_text(encoding="utf-8") == first


def test_a_record_that_is_damaged_or_gone_is_told_and_the_others_stay(tmp_path):
    suite = damaged(tmp_path)
    page, unknown = rank(ALL, suite, tmp_path), rank(ALL[1:], suite, tmp_path)
    lines = {each.name: each.words for each in page.ranked}
    assert "damaged or truncated" in lines["whole"]
    assert "no such file" in lines["loading"]
    assert [each.name for each in page.ranked if each.page] == ["model", "work"]
    lines = {each.name: each.words for each in unknown.ranked}
    assert lines["whole"] == "this headrace has no benchmark of that name."


def test_what_differs_between_records_is_said(tmp_path):
    other = contest(1.5)
    made = other.provenance
    versions = {**made.versions, "torch": "1.0"}
    other = other.model_copy(update={"provenance": made.model_copy(update={"versions": versions})})
    page = rank(ALL, written(tmp_path, whole=other), tmp_path)
    [(name, words)] = [each for each in differing(page) if "torch" in each[1]]
    assert name == "whole"
    assert words.startswith("torch 1.0, not ")


def test_the_document_holds_findings_and_files(tmp_path):
    ranking = rank(ALL, written(tmp_path), tmp_path)
    found = json.loads(suite_json(ranking, tmp_path, {"report": tmp_path / "all.html"}))
    assert found["verdict"].startswith("The largest gain shown: quick (model)")
    first = found["findings"][0]
    assert (first["experiment"], first["concerns"], first["gain"]) == ("model", "model", 2.0)
    for what, name in (("numbers", "json"), ("table", "csv"), ("page", "html")):
        assert first[what] == str(tmp_path / f"model.{name}")
        assert (tmp_path / f"model.{name}").stat().st_size > 0
    assert [each["outcome"] for each in found["findings"]][-2:] == ["failed", "not possible"]
    assert found["files"] == {"report": str(tmp_path / "all.html")}
