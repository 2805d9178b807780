"""`headrace bench all`: options, report and exit codes."""

import json
import os
import signal
from contextlib import nullcontext

import pytest
import typer

from bench.suite.fakes import FAILING, HANGING, LOADING, WHOLE, contest, measure, write_suite
from headrace.bench import registry
from headrace.bench.suite import suite_runner
from headrace.bench.suite.suite_runner import SuiteObserver, prepare_suite
from headrace.bench.suite.suite_selection import Choice, SuiteConfig
from headrace.cli import bench
from headrace.cli.bench import run_suite
from headrace.testing.synth import SynthClip, write_clip

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
    pytest.mark.usefixtures("forked_children"),
]


@pytest.fixture
def video(tmp_path):
    return write_clip(tmp_path / "good", SynthClip(num_frames=12))


@pytest.fixture
def hold(video, tmp_path, capsys):
    """Return a function: benchmarks -> (exit code, stdout, stderr)."""

    def run(*experiments, as_json=False):
        suite = prepare_suite(
            experiments,
            SuiteConfig(videos=(str(video),)),
            Choice(),
            folder=tmp_path / "out",
            command=("headrace", "bench", "all", "good.mp4"),
            measure=measure,
        )
        code = 0
        try:
            run_suite(suite, as_json=as_json)
        except typer.Exit as end:
            code = end.exit_code
        return code, *capsys.readouterr()

    return run


def test_it_prints_the_plan_and_the_outcome_of_each_benchmark_and_writes_a_page(hold, tmp_path):
    out_dir = tmp_path / "out"
    code, out, err = hold(WHOLE, FAILING)
    assert code == 1
    lines = out.splitlines()
    assert lines[0] == f"To measure: 2 benchmarks, about 2 min. Folder: {out_dir}"
    assert lines[1].startswith("Measured gains: good.")
    assert out.endswith(f"Report: {out_dir}/all.html\nRecord: {out_dir}/all.json\n")
    assert max(map(len, lines[1:-2])) <= 80
    first, second, last = err.splitlines()
    assert first.startswith("1 of 2: whole measured after ")
    assert second.startswith("2 of 2: failing failed after ")
    assert second.endswith(": the third frame cannot be shown")
    assert last == "headrace: failing failed: the third frame cannot be shown"
    assert "benchmark-whole" in (out_dir / "all.html").read_text(encoding="utf-8")


def test_json_is_one_document_on_stdout(hold, tmp_path):
    code, out, err = hold(LOADING, as_json=True)
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert [each["experiment"] for each in found["findings"]] == ["loading"]
    assert found["findings"][0]["concerns"] == "loading"
    assert found["files"]["report"] == str(tmp_path / "out" / "all.html")


def test_the_page_can_be_rendered_again_and_printed(call, printed, tmp_path):
    write_suite(tmp_path, {WHOLE: contest(1.5)})
    assert printed("report", tmp_path) == f"Report: {tmp_path / 'all.html'}\n"
    page = (tmp_path / "all.html").read_text(encoding="utf-8")
    assert "this version of headrace has no benchmark of that name" in page
    out = printed("report", tmp_path, "--text")
    assert out.startswith("Measured gains: a.mp4, resnet18 on cpu\n")
    (tmp_path / "all.json").write_text("{")
    code, _, err = call("report", tmp_path)
    assert (code, err.count("\n")) == (2, 1)
    assert "all.json: it is damaged or truncated, not complete JSON; headrace bench all" in err


def test_a_measured_benchmark_is_reused_by_the_next_suite(call, tmp_path):
    video = write_clip(tmp_path / "clip", SynthClip(num_frames=48))
    asked = ("bench", "all", video, "--only", "transfer", "--out", tmp_path / "out")
    code, out, err = call(*asked)
    assert code == 0, err
    assert err.startswith("1 of 1: transfer measured after ")
    assert "transfer  " in out
    record = json.loads((tmp_path / "out" / "transfer.json").read_text())
    assert record["provenance"]["command"][0] == "headrace"
    again, out, err = call(*asked)
    assert (again, err) == (0, "")
    assert "To measure: 0 benchmarks; 1 measured before." in out
    assert "1 of them by an earlier suite" in " ".join(out.split())


def test_a_dry_run_lists_all_and_writes_nothing(printed, as_json, video, tmp_path):
    asked = ("bench", "all", video, "--skip", "live", "--out", tmp_path / "out", "--dry-run")
    out = printed(*asked)
    names = {line.split()[0] for line in out.splitlines()[1:] if not line.startswith("   ")}
    assert names == {each.name for each in registry.BENCHMARKS}
    assert "--workers 0,1" in out
    assert "not selected by --only or --skip" in out
    assert max(map(len, out.splitlines()[1:])) <= 80
    found = {each["experiment"]: each for each in as_json(*asked)["experiments"]}
    assert set(found) == names
    assert (found["live"]["is_due"], found["scenarios"]["is_due"]) == (False, True)
    assert found["scenarios"]["about_seconds"] > 0
    assert not (tmp_path / "out").exists()


def test_ctrl_c_leaves_a_report_of_the_finished_benchmarks(call, video, tmp_path, monkeypatch):
    """The benchmark interrupts the waiting process, as Ctrl-C would."""

    def progress(what, done, of):
        if what == "waiting":
            os.kill(os.getpid(), signal.SIGINT)

    out = tmp_path / "out"
    observer = SuiteObserver(on_progress=progress)
    monkeypatch.setattr(bench, "progress_of_suite", lambda is_quiet: nullcontext(observer))
    monkeypatch.setattr(registry, "BENCHMARKS", (WHOLE, HANGING))
    monkeypatch.setattr(suite_runner, "measure_registered", measure)
    code, said, err = call("bench", "all", video, "--out", out)
    assert code == 130, err
    assert err.strip().endswith(f"interrupted; finished benchmarks are kept in {out}")
    assert "The suite was interrupted; the same command continues" in " ".join(said.split())
    page = (out / "all.html").read_text(encoding="utf-8")
    assert 'id="benchmark-whole"' in page
    assert 'id="benchmark-hanging"' not in page
