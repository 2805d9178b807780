"""Run of the whole check, and of each step as a process."""

import json
import runpy
import subprocess
import sys

import pytest

from benchmarks.gpu_check import readings
from benchmarks.gpu_check.check import has_no_gpu, run_step, run_steps, select_steps
from benchmarks.gpu_check.step import GpuCheckResult, Reading, Step, UnreadError, render, status_of
from benchmarks.record import origin
from benchmarks.worker import ROOT
from decode.gpus import needs_no_gpu
from headrace.profiling.provenance import Provenance

MADE = origin()


def step(name="a", needs=(), code="", read=lambda ended: Reading(said=ended.stdout), **fields):
    """Return a step that runs Python code."""
    fields = {"asks": "something", "limit_seconds": 60.0, **fields}
    return Step(name=name, arguments=("-c", code), read=read, needs=needs, **fields)


def machine(missing):
    """Return the first step, with the missing requirements of the machine."""
    answer = {"said": "a machine", "missing": missing, "provenance": MADE.model_dump(mode="json")}
    answer |= {"heads": [], "rows": []}
    code = f"print({json.dumps(json.dumps(answer))})"
    return step("machine", code=code, read=readings.report)


NO_NVDEC = {"NVDEC": "no NVDEC here: the driver lacks it"}
NO_GPU = dict.fromkeys(("a GPU", "NVDEC"), "no NVIDIA GPU here")
FAILS = "raise SystemExit(1)"
STEPS = {
    "a failed step": (machine({}), step("second", code=FAILS), "passed failed passed", 1),
    "no NVDEC": (machine(NO_NVDEC), step("second", ("NVDEC",)), "passed not-run passed", 4),
    "no GPU": (machine(NO_GPU), step("second"), "passed not-run not-run", 4),
    "unknown machine": (step("machine", code=FAILS), step("second"), "failed not-run not-run", 1),
}
"""First step, second step, outcomes of these and a third step, and exit status."""


@pytest.mark.parametrize("name", STEPS)
def test_steps_have_outcomes_and_an_exit_status(name):
    first, second, outcomes, status = STEPS[name]
    blank = GpuCheckResult(provenance=origin(blank=True), is_rehearsal=False)
    results = list(run_steps((first, second, step("third")), blank, seconds=60))
    assert [len(result.rows) for result in results] == [1, 2, 3]
    result = results[-1]
    assert [row.outcome.replace(" ", "-") for row in result.rows] == outcomes.split()
    assert (result.exit_status, has_no_gpu(result)) == (status, name == "no GPU")
    if result.rows[0].outcome == "passed":
        assert result.provenance == Provenance.model_validate(MADE.model_dump(mode="json"))
    if name == "no NVDEC":
        assert NO_NVDEC["NVDEC"] in render(result)
        assert render(result).endswith("3 steps: 2 passed, 1 not run\nnot run: second\n")


@pytest.mark.parametrize(
    ("outcomes", "status"),
    [
        (["passed", "passed"], 0),
        (["passed", "failed", "not run"], 1),
        (["passed", "too long"], 1),
        (["passed", "not run"], 4),
        (["passed", "interrupted", "not run"], 130),
        ([], 4),
    ],
)
def test_the_exit_status_is_0_only_if_every_step_passed(outcomes, status):
    assert status_of(outcomes) == status


def call(*words):
    """Return the finished command."""
    command = [sys.executable, str(ROOT / "scripts" / "gpu_check.py"), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


@pytest.mark.slow
def test_a_rehearsal_runs_its_steps_and_saves_them(tmp_path):
    run = call("--rehearse", "--only", "run:refused2,nvdec:h264", "--out", tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    result = GpuCheckResult.load(tmp_path / "gpu_check.json")
    names = ["machine", "media", "run:refused2", "nvdec:h264"]
    assert [(row.name, row.outcome) for row in result.rows] == [(n, "passed") for n in names]
    assert result.is_rehearsal
    assert result.provenance.configuration["only"] == "run:refused2,nvdec:h264"
    assert "--prep-on-gpu needs --mode inference" in result.rows[2].said
    assert render(result) in run.stdout


@needs_no_gpu
def test_without_a_gpu_the_exit_status_is_3(tmp_path):
    run = call("--only", "run:plain", "--out", tmp_path)
    assert run.returncode == 3
    assert run.stderr == (
        "gpu_check: this machine has no NVIDIA GPU, so nothing was checked; --rehearse runs the "
        "same steps on the CPU\n"
    )
    rows = GpuCheckResult.load(tmp_path / "gpu_check.json").rows
    assert "passed" not in [row.outcome for row in rows[1:]]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--only", "ruin"],
            "unknown step: ruin; groups of steps: machine, media, tests, run, memory, decode",
        ),
        (["--seconds", "0"], "--seconds must be > 0, got 0"),
        (["--out", "/proc/nowhere"], "cannot write into /proc/nowhere"),
    ],
)
def test_a_wrong_command_line_is_an_error_of_one_line(words, message, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["gpu_check.py", *words])
    monkeypatch.setattr("sys.path", [*sys.path])
    script = runpy.run_path(str(ROOT / "scripts" / "gpu_check.py"))
    assert script["main"]() == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def refuses(ended):
    raise UnreadError("there is no answer")


def test_a_step_passes_with_the_expected_exit_status_and_output():
    row = run_step(step(code="print('output')"), {}, 60)
    assert (row.outcome, row.said.strip(), row.why) == ("passed", "output", None)
    assert row.seconds is not None


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (step(code="raise SystemExit(5)"), "exit status 5"),
        (step(code="", exit_status=2), "exit status 0, not 2"),
        (step(code="import os; os.kill(os.getpid(), 9)"), "killed by SIGKILL"),
        (step(code="", read=refuses), "there is no answer"),
        (
            step(code="", read=lambda ended: ended.nothing),
            "its output cannot be parsed: AttributeError: 'CompletedProcess' object has no "
            "attribute 'nothing'",
        ),
    ],
    ids=["exit", "no exit", "died", "refused", "unread"],
)
def test_a_failed_step_has_its_reason(wrong, why):
    row = run_step(wrong, {}, 60)
    assert (row.outcome, row.why) == ("failed", why)


def test_the_last_lines_of_the_output_are_kept():
    row = run_step(step(code="import sys; print('a'); sys.exit('b' * 900)"), {}, 60)
    assert row.last_lines[0] == "a"
    assert len(row.last_lines[1]) == 400


def test_a_step_that_hangs_is_killed_with_its_children():
    hangs = "import signal, subprocess, sys\nsubprocess.run([sys.executable, '-c', 'input()'])"
    row = run_step(step(code=f"{hangs}\nsignal.pause()", limit_seconds=1.0), {}, 60)
    assert (row.outcome, row.why) == ("too long", "killed after 1 s")


def test_a_step_without_its_requirements_or_time_does_not_run():
    row = run_step(step(needs=("a GPU",)), {"a GPU": "no NVIDIA GPU here"}, 60)
    assert (row.outcome, row.why, row.seconds) == ("not run", "no NVIDIA GPU here", None)
    assert run_step(step(), {}, 0.5).why == "no time left"


def test_a_step_has_its_environment_and_imports_this_headrace():
    code = "import os, headrace; print(os.environ['REQUIRE_GPU'], headrace.__file__)"
    row = run_step(step(code=code, environment={"REQUIRE_GPU": "1"}), {}, 60)
    assert row.said.split() == ["1", sys.modules["headrace"].__file__]


def test_steps_are_selected_by_name_or_group():
    steps = [step(name) for name in ("run:1", "run:2", "live")]
    assert select_steps(steps, ()) == tuple(steps)
    assert select_steps(steps, ["run"]) == tuple(steps[:2])
    assert select_steps(steps, ["live", "run:2"]) == tuple(steps[1:])
    with pytest.raises(ValueError, match="unknown step: ruin; groups of steps: run, live"):
        select_steps(steps, ["ruin"])
