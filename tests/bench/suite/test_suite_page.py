"""First page of a suite: end-to-end gains first, then gains of parts, then no gain."""

import json

from bench.suite import fakes
from headrace.bench.suite import suite_page
from headrace.bench.suite.ranking import rank
from headrace.bench.suite.suite_selection import read_suite

FAILED = fakes.result(fakes.FAILING, outcome="failed", why="the third frame cannot be shown")


def written(folder, **records):
    """Write a suite with planted gains into a folder; return its record."""
    measured = {
        fakes.WHOLE: fakes.contest(1.5),
        fakes.MODEL: fakes.contest(2.0),
        fakes.LOADING: fakes.contest(3.0),
        fakes.WORK: fakes.contest(1.01, cores=1),
    }
    by_name = {benchmark.name: benchmark for benchmark in measured}
    measured |= {by_name[name]: record for name, record in records.items()}
    impossible = fakes.result(fakes.NEVER, outcome="not possible", why="it takes no videos")
    return fakes.write_suite(folder, measured, FAILED, impossible)


def damaged(folder):
    """Write a suite with a damaged and a missing record."""
    suite = written(folder)
    (folder / "whole.json").write_text("{")
    (folder / "loading.json").unlink()
    return suite


def busy(gain):
    return fakes.contest(gain, others=2.0)


CASES = {
    "gains of all kinds": written,
    "a stage that is not the bottleneck": lambda at: written(at, model=fakes.contest(1.04)),
    "shares of another model": lambda at: written(at, model=fakes.contest(2.0, model="resnet50")),
    "some is uncertain": lambda at: written(at, whole=busy(1.5), work=busy(1.0)),
    "all is uncertain": lambda at: fakes.write_suite(
        at, {fakes.WHOLE: busy(1.5), fakes.MODEL: busy(1.0)}
    ),
    "no work of stages": lambda at: fakes.write_suite(at, {fakes.MODEL: fakes.contest(2.0)}),
    "nothing was measured": lambda at: fakes.write_suite(at, {}, FAILED),
}


def test_the_text_is_the_first_page(tmp_path, holds):
    lines = []
    for number, (case, make) in enumerate(CASES.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        text = suite_page.render_suite_text(rank(fakes.ALL, make(folder), folder))
        lines += [f"# {case}", "", text]
    holds("suite.txt", "\n".join(lines))


def test_the_records_reproduce_the_page(tmp_path):
    first = suite_page.render_suite(rank(fakes.ALL, written(tmp_path), tmp_path))
    path = suite_page.write_page(rank(fakes.ALL, read_suite(tmp_path), tmp_path), tmp_path)
    assert path.read_text(encoding="utf-8") == first


def test_a_damaged_or_missing_record_is_reported_and_the_others_stay(tmp_path):
    suite = damaged(tmp_path)
    page, unknown = rank(fakes.ALL, suite, tmp_path), rank(fakes.ALL[1:], suite, tmp_path)
    lines = {ranked.name: ranked.words for ranked in page.ranked}
    assert "damaged or truncated" in lines["whole"]
    assert "no such file" in lines["loading"]
    assert [ranked.name for ranked in page.ranked if ranked.page] == ["model", "work"]
    lines = {ranked.name: ranked.words for ranked in unknown.ranked}
    assert lines["whole"] == "this version of headrace has no benchmark of that name."


def test_environment_differences_between_records_are_listed(tmp_path):
    other = fakes.contest(1.5)
    made = other.provenance
    versions = {**made.versions, "torch": "1.0"}
    other = other.model_copy(update={"provenance": made.model_copy(update={"versions": versions})})
    page = rank(fakes.ALL, written(tmp_path, whole=other), tmp_path)
    [(name, text)] = [row for row in suite_page.differing(page) if "torch" in row[1]]
    assert name == "whole"
    assert text.startswith("torch 1.0, not ")


def test_the_json_has_findings_and_files(tmp_path):
    ranking = rank(fakes.ALL, written(tmp_path), tmp_path)
    document = json.loads(
        suite_page.suite_json(ranking, tmp_path, {"report": tmp_path / "all.html"})
    )
    assert document["verdict"].startswith("Largest gain shown: quick (model)")
    first = document["findings"][0]
    assert (first["experiment"], first["concerns"], first["gain"]) == ("model", "model", 2.0)
    for what, name in (("numbers", "json"), ("table", "csv"), ("page", "html")):
        assert first[what] == str(tmp_path / f"model.{name}")
        assert (tmp_path / f"model.{name}").stat().st_size > 0
    assert [row["outcome"] for row in document["findings"]][-2:] == ["failed", "not possible"]
    assert document["files"] == {"report": str(tmp_path / "all.html")}
