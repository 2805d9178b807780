"""The first page: the largest gain of the whole first, then parts, then what shows none."""

import json

from bench.suite.fakes import ALL, FAILING, LOADING, MODEL, NEVER, WHOLE, WORK
from bench.suite.records import chapter, contest, surveyed
from headrace.bench.suite.ranking import judge
from headrace.bench.suite.suite_content import page_of, survey_json, write_page
from headrace.bench.suite.suite_record import read_survey
from headrace.report.survey import render_survey, render_survey_text

TEXT = """\
What makes it faster: a.mp4, resnet18 on cpu

The largest gain shown: quick (model), the whole about 1.67 times as fast
  - One after the other, a frame takes decoding 2.00, the model 8.00 ms (bench
    work): the model takes the most.
  - 4 of 6 experiments were measured.
  - failing failed.

What makes the whole faster
  model  1.67 times  quick
                     2.00 times for the model: 200 against 100 MB/s of plain. Of
                     the whole 1.67 times where stages overlap, as in headrace
                     run, 1.67 times where they follow each other.
                     Fastest is quick: 200 MB/s
  whole  1.50 times  quick
                     For the whole: 150 against 100 MB/s of plain.
                     Fastest is quick: 150 MB/s

What makes a part faster
  loading  3.00 times  quick
                       For loading: 300 against 100 MB/s of plain.
                       Fastest is quick: 300 MB/s

No gain shown
  work  none shown  Fastest is plain and quick: 101 MB/s
                    No gain is known: nothing here is clearly faster than plain.

Not measured
  failing  failed        the third frame cannot be shown.
  never    not possible  it takes no videos.
"""


def written(folder, **records):
    """Return the page of a survey with planted gains."""
    measured = {
        WHOLE: contest(1.5),
        MODEL: contest(2.0),
        LOADING: contest(3.0),
        WORK: contest(1.01, cores=1),
    }
    by_name = {each.name: each for each in measured}
    measured |= {by_name[name]: record for name, record in records.items()}
    survey = surveyed(
        folder,
        measured,
        chapter(FAILING, outcome="failed", why="the third frame cannot be shown"),
        chapter(NEVER, outcome="not possible", why="it takes no videos"),
    )
    return page_of(ALL, survey, folder)


def test_the_text_is_the_first_page(tmp_path):
    assert render_survey_text(written(tmp_path)) == TEXT


def test_a_gain_of_a_stage_that_does_not_set_the_pace_is_none_of_the_whole(tmp_path):
    page = written(tmp_path, model=contest(1.04))
    names = {group.title: [line.name for line in group.lines] for group in page.groups}
    assert names["What makes the whole faster"] == ["whole"]
    assert "model" in names["No gain shown"]


def test_the_shares_of_another_model_convert_nothing(tmp_path):
    page = written(tmp_path, model=contest(2.0, model="resnet50"))
    names = {group.title: [line.name for line in group.lines] for group in page.groups}
    assert names["What makes a part faster"] == ["loading", "model"]


def test_what_is_uncertain_says_so_and_how_to_go_on(tmp_path):
    page = written(tmp_path, whole=contest(1.5, others=2.0), work=contest(1.0, others=2.0))
    said = " ".join(page.verdict.evidence)
    assert "too much: whole and work. --again --only whole,work measures anew." in said
    assert "these shares are uncertain" in said
    titles = [group.title for group in page.groups]
    assert titles[-2:] == ["Too uncertain to say", "Not measured"]
    [line] = [line for group in page.groups for line in group.lines if line.name == "whole"]
    assert line.gain == "uncertain"


def test_where_all_is_uncertain_that_is_the_verdict(tmp_path):
    survey = surveyed(tmp_path, {WHOLE: contest(1.5, others=2.0), MODEL: contest(1.0, others=2.0)})
    assert page_of(ALL, survey, tmp_path).verdict.headline == (
        "No gain shown; 2 experiments gave no verdict, as the figures are too uncertain"
    )


def test_without_the_work_of_stages_gains_are_those_of_parts(tmp_path):
    survey = surveyed(tmp_path, {MODEL: contest(2.0)})
    page = page_of(ALL, survey, tmp_path)
    assert page.verdict.headline == (
        "The largest gain shown: quick (model), the model about 2.00 times as fast"
    )
    assert any("was not measured" in each for each in page.verdict.evidence)


def test_where_nothing_was_measured_it_says_so(tmp_path):
    survey = surveyed(tmp_path, {}, chapter(FAILING, outcome="failed", why="no disk"))
    page = page_of(ALL, survey, tmp_path)
    assert page.verdict.headline == "Nothing was measured"
    assert page.chapters == ()


def test_the_records_alone_give_the_same_page_again(tmp_path):
    first = render_survey(written(tmp_path))
    survey = read_survey(tmp_path)
    assert survey is not None
    path = write_page(page_of(ALL, survey, tmp_path), tmp_path)
    assert path.read_text(encoding="utf-8") == first


def test_a_record_that_is_damaged_or_gone_is_told_and_the_others_stay(tmp_path):
    written(tmp_path)
    (tmp_path / "whole.json").write_text("{")
    (tmp_path / "loading.json").unlink()
    survey = read_survey(tmp_path)
    assert survey is not None
    page = page_of(ALL[1:], survey, tmp_path)
    lines = {line.name: line.words for group in page.groups for line in group.lines}
    assert lines["whole"] == "this headrace has no experiment of that name."
    assert "no such file" in lines["loading"]
    again = page_of(ALL, survey, tmp_path)
    lines = {line.name: line.words for group in again.groups for line in group.lines}
    assert "damaged or cut off" in lines["whole"]
    assert [each.name for each in again.chapters] == ["model", "work"]


def test_what_differs_between_records_is_said(tmp_path):
    other = contest(1.5)
    made = other.provenance
    versions = {**made.versions, "torch": "1.0"}
    other = other.model_copy(update={"provenance": made.model_copy(update={"versions": versions})})
    page = written(tmp_path, whole=other)
    [(name, words)] = [each for each in page.differing if "torch" in each[1]]
    assert name == "whole"
    assert words.startswith("torch 1.0, not ")


def test_the_document_holds_findings_and_files(tmp_path):
    written(tmp_path)
    survey = read_survey(tmp_path)
    assert survey is not None
    text = survey_json(judge(ALL, survey, tmp_path), tmp_path, {"report": tmp_path / "all.html"})
    found = json.loads(text)
    assert found["verdict"].startswith("The largest gain shown: quick (model)")
    first = found["findings"][0]
    assert (first["experiment"], first["concerns"], first["gain"]) == ("model", "model", 2.0)
    assert first["numbers"] == str(tmp_path / "model.json")
    assert [each["outcome"] for each in found["findings"]][-2:] == ["failed", "not possible"]
    assert found["files"] == {"report": str(tmp_path / "all.html")}
