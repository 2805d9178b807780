"""The check as a whole, and each step as a process."""

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
    """Return a step that runs some code."""
    given = {"asks": "something", "limit_seconds": 60.0, "needs": needs, **fields}
    return Step(name=name, arguments=("-c", code), read=read, **given)


def machine(missing):
    """Return the first step, of a machine that lacks something."""
    answer = {"said": "a machine", "missing": missing, "provenance": MADE.model_dump(mode="json")}
    answer |= {"heads": [], "rows": []}
    code = f"print({json.dumps(json.dumps(answer))})"
    return step("machine", code=code, read=readings.report)


def held(*steps):
    """Return the result, and the outcomes by name."""
    blank = GpuCheckResult(provenance=origin(blank=True), is_rehearsal=False)
    results = list(run_steps(steps, blank, seconds=60))
    assert [len(each.rows) for each in results] == list(range(1, len(steps) + 1))
    result = results[-1]
    return result, {row.name: row.outcome for row in result.rows}


def test_a_step_that_fails_is_a_row_and_the_rest_goes_on():
    result, outcomes = held(machine({}), step("bad", code="raise SystemExit(1)"), step("good"))
    assert outcomes == {"machine": "passed", "bad": "failed", "good": "passed"}
    assert result.exit_status == 1
    assert result.provenance == Provenance.model_validate(MADE.model_dump(mode="json"))


def test_where_nvdec_is_absent_the_rest_is_done_and_it_is_said():
    absent = {"NVDEC": "no NVDEC here: the driver lacks it"}
    result, outcomes = held(machine(absent), step("there", ("a GPU", "NVDEC")), step("other"))
    assert outcomes == {"machine": "passed", "there": "not run", "other": "passed"}
    assert result.exit_status == 4
    assert "no NVDEC here: the driver lacks it" in render(result)
    assert render(result).endswith("3 steps: 2 passed, 1 not run\nnot run: there\n")


def test_without_a_gpu_nothing_else_is_run():
    absent = {"a GPU": "no NVIDIA GPU here", "NVDEC": "no NVIDIA GPU here"}
    result, outcomes = held(machine(absent), step("other"))
    assert outcomes == {"machine": "passed", "other": "not run"}
    assert has_no_gpu(result)


def test_where_it_is_not_known_what_the_machine_is_nothing_passes():
    result, outcomes = held(step("machine", code="raise SystemExit(1)"), step("other"))
    assert outcomes == {"machine": "failed", "other": "not run"}
    assert result.exit_status == 1
    assert not has_no_gpu(result)


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
def test_the_exit_status_is_0_only_where_everything_ran_and_passed(outcomes, status):
    assert status_of(outcomes) == status


def call(*words):
    """Return what the command comes to."""
    command = [sys.executable, str(ROOT / "scripts" / "gpu_check.py"), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


def test_a_rehearsal_runs_its_steps_for_real_and_keeps_them(tmp_path):
    done = call("--rehearse", "--only", "run:refused2,nvdec:h264", "--out", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    result = GpuCheckResult.load(tmp_path / "gpu_check.json")
    names = ["machine", "media", "run:refused2", "nvdec:h264"]
    assert [(row.name, row.outcome) for row in result.rows] == [(n, "passed") for n in names]
    assert result.is_rehearsal
    assert result.provenance.configuration["only"] == "run:refused2,nvdec:h264"
    assert "--prep-on-gpu needs --mode inference" in result.rows[2].said
    assert render(result) in done.stdout


@needs_no_gpu
def test_without_a_gpu_the_command_says_so_and_ends_with_3(tmp_path):
    done = call("--only", "run:plain", "--out", tmp_path)
    assert done.returncode == 3
    assert done.stderr == (
        "gpu_check: this machine has no NVIDIA GPU, so nothing was checked; --rehearse runs the "
        "same steps on the CPU\n"
    )
    rows = GpuCheckResult.load(tmp_path / "gpu_check.json").rows
    assert "passed" not in [row.outcome for row in rows[1:]]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--only", "ruin"], "no step ruin; there are machine, media, tests, run, memory, decode"),
        (["--seconds", "0"], "--seconds must be > 0, got 0"),
        (["--out", "/proc/nowhere"], "cannot write into /proc/nowhere"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(words, said, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["gpu_check.py", *words])
    monkeypatch.setattr("sys.path", [*sys.path])
    script = runpy.run_path(str(ROOT / "scripts" / "gpu_check.py"))
    assert script["main"]() == 2
    complaint = capsys.readouterr().err
    assert said in complaint
    assert complaint.count("\n") == 1


def refuses(ended):
    raise UnreadError("there is no answer")


def test_a_step_passes_that_ended_as_it_should_and_printed_what_it_should():
    row = run_step(step(code="print('found')"), {}, 60)
    assert (row.outcome, row.said.strip(), row.why) == ("passed", "found", None)
    assert row.seconds is not None


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (step(code="raise SystemExit(5)"), "exit status 5"),
        (step(code="", exit_status=2), "exit status 0, not 2"),
        (step(code="import os; os.kill(os.getpid(), 9)"), "it died of SIGKILL"),
        (step(code="", read=refuses), "there is no answer"),
        (
            step(code="", read=lambda ended: ended.nothing),
            "what it printed cannot be read: AttributeError: 'CompletedProcess' object has no "
            "attribute 'nothing'",
        ),
    ],
    ids=["exit", "no exit", "died", "refused", "unread"],
)
def test_one_that_does_not_is_a_row_that_says_why(wrong, why):
    row = run_step(wrong, {}, 60)
    assert (row.outcome, row.why) == ("failed", why)


def test_the_end_of_what_it_printed_is_kept():
    row = run_step(step(code="import sys; print('a'); sys.exit('b' * 900)"), {}, 60)
    assert row.last_lines[0] == "a"
    assert len(row.last_lines[1]) == 400


def test_one_that_hangs_is_ended_with_all_it_began():
    hangs = "import signal, subprocess, sys\nsubprocess.run([sys.executable, '-c', 'input()'])"
    row = run_step(step(code=f"{hangs}\nsignal.pause()", limit_seconds=1.0), {}, 60)
    assert (row.outcome, row.why) == ("too long", "it was ended after 1 s")


def test_what_is_missing_or_has_no_time_left_is_not_run():
    row = run_step(step(needs=("a GPU",)), {"a GPU": "no NVIDIA GPU here"}, 60)
    assert (row.outcome, row.why, row.seconds) == ("not run", "no NVIDIA GPU here", None)
    assert run_step(step(), {}, 0.5).why == "no time was left for it"


def test_its_process_is_given_what_it_asks_for_and_this_headrace():
    code = "import os, headrace; print(os.environ['REQUIRE_GPU'], headrace.__file__)"
    row = run_step(step(code=code, environment={"REQUIRE_GPU": "1"}), {}, 60)
    assert row.said.split() == ["1", sys.modules["headrace"].__file__]


def test_steps_are_chosen_by_name_or_by_what_stands_before_the_colon():
    steps = [step(name) for name in ("run:1", "run:2", "live")]
    assert select_steps(steps, ()) == tuple(steps)
    assert select_steps(steps, ["run"]) == tuple(steps[:2])
    assert select_steps(steps, ["live", "run:2"]) == tuple(steps[1:])
    with pytest.raises(ValueError, match="no step ruin; there are run, live"):
        select_steps(steps, ["ruin"])
