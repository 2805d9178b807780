"""Report of a suite: end-to-end gains (Amdahl) first, then gains of parts, then no gain."""

import json

import pytest

from bench.suite import fakes
from headrace.bench.benchmark import StageWork
from headrace.bench.suite import suite_page
from headrace.bench.suite.ranking import StageCosts, end_to_end_gain, rank
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


MS = {"decode": 2.0, "preprocess": 1.0, "model": 7.0}


def work(cores, cpu=1.0):
    """Return stages whose CPU time is `cpu` times their wall time."""
    stages = {role: StageWork(ms=ms, cpu_ms=cpu * ms) for role, ms in MS.items()}
    return StageCosts(stages=stages, source="stages", cores=cores)


@pytest.mark.parametrize(
    ("gain", "role", "cores", "in_turn", "overlapped"),
    [
        (2, "model", 8, 10 / 6.5, 2),
        (14, "model", 8, 10 / 3.5, 7),  # preprocessing is next
        (2, "decode", 8, 10 / 9, 1),  # the model is the bottleneck
        (2, "model", 1, 10 / 6.5, 10 / 6.5),  # one core: sequential despite overlap
        (2, "decode", 1, 10 / 9, 10 / 9),
        (7, "model", 2, 10 / 4, 3.5),  # from 7 ms to 4 ms on two cores
        (1, "model", 2, 1, 1),
    ],
)
def test_a_faster_stage_does_not_change_the_others(gain, role, cores, in_turn, overlapped):
    result = end_to_end_gain(gain, role, work(cores))
    assert result is not None
    assert result.in_turn == pytest.approx(in_turn)
    assert result.overlapped == pytest.approx(overlapped)


def test_a_model_on_all_cores_leaves_none_for_overlap():
    result = end_to_end_gain(2, "decode", work(2, cpu=2.0))
    assert result is not None
    assert result.overlapped == pytest.approx(result.in_turn)


def test_a_model_on_a_gpu_uses_no_core():
    stages = {**work(1).stages, "model": StageWork(ms=7.0, cpu_ms=0.0)}
    result = end_to_end_gain(2, "decode", StageCosts(stages=stages, source="stages", cores=1))
    assert result is not None
    assert result.overlapped == 1


def test_the_end_to_end_gain_is_at_most_the_gain_of_the_stage():
    for gain in (1.1, 2, 50):
        for role in MS:
            for cores in (1, 2, 3, 8):
                for cpu in (0.1, 1, 3):
                    result = end_to_end_gain(gain, role, work(cores, cpu))
                    assert result is not None
                    assert 1 <= result.in_turn <= gain
                    assert 1 <= result.overlapped <= gain + 1e-9


def test_a_stage_of_unknown_work_has_no_end_to_end_gain():
    assert end_to_end_gain(2, "sink", work(2)) is None


def test_work_is_listed_in_pipeline_order():
    assert work(2).words == "decoding 2.00, preprocessing 1.00, the model 7.00 ms"
    assert work(2).costliest == "model"
