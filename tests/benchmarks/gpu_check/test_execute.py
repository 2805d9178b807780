"""A step is a process: what became of it is a row, whatever it does."""

import sys

import pytest

from benchmarks.gpu_check.execute import chosen, execute
from benchmarks.gpu_check.step import Reading, Step, UnreadError


def step(code="", read=lambda ended: Reading(said=ended.stdout), **fields):
    """Return a step that runs some code."""
    given = {"name": "a", "asks": "a", "limit_seconds": 60.0, **fields}
    return Step(arguments=("-c", code), read=read, **given)


def refuses(ended):
    raise UnreadError("there is no answer")


def test_a_step_passes_that_ended_as_it_should_and_printed_what_it_should():
    row = execute(step("print('found')"), {}, 60)
    assert (row.outcome, row.said.strip(), row.why) == ("passed", "found", None)
    assert row.seconds is not None


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (step("raise SystemExit(5)"), "exit status 5"),
        (step("", exit_status=2), "exit status 0, not 2"),
        (step("import os; os.kill(os.getpid(), 9)"), "it died of SIGKILL"),
        (step("", read=refuses), "there is no answer"),
        (
            step("", read=lambda ended: ended.nothing),
            "what it printed cannot be read: AttributeError: 'Ended' object has no attribute "
            "'nothing'",
        ),
    ],
    ids=["exit", "no exit", "died", "refused", "unread"],
)
def test_one_that_does_not_is_a_row_that_says_why(wrong, why):
    row = execute(wrong, {}, 60)
    assert (row.outcome, row.why) == ("failed", why)


def test_the_end_of_what_it_printed_is_kept():
    row = execute(step("import sys; print('a'); sys.exit('b' * 900)"), {}, 60)
    assert row.last_lines[0] == "a"
    assert len(row.last_lines[1]) == 400


def test_one_that_hangs_is_ended_with_all_it_began():
    hangs = "import signal, subprocess, sys\nsubprocess.run([sys.executable, '-c', 'input()'])"
    row = execute(step(f"{hangs}\nsignal.pause()", limit_seconds=1.0), {}, 60)
    assert (row.outcome, row.why) == ("too long", "it was ended after 1 s")


def test_what_is_missing_or_has_no_time_left_is_not_run():
    row = execute(step(needs=("a GPU",)), {"a GPU": "no NVIDIA GPU here"}, 60)
    assert (row.outcome, row.why, row.seconds) == ("not run", "no NVIDIA GPU here", None)
    assert execute(step(), {}, 0.5).why == "no time was left for it"


def test_its_process_is_given_what_it_asks_for_and_this_headrace():
    code = "import os, headrace; print(os.environ['REQUIRE_GPU'], headrace.__file__)"
    row = execute(step(code, environment={"REQUIRE_GPU": "1"}), {}, 60)
    assert row.said.split() == ["1", sys.modules["headrace"].__file__]


def test_steps_are_chosen_by_name_or_by_what_stands_before_the_colon():
    steps = [step(name=name) for name in ("run:1", "run:2", "live")]
    assert chosen(steps, ()) == tuple(steps)
    assert chosen(steps, ["run"]) == tuple(steps[:2])
    assert chosen(steps, ["live", "run:2"]) == tuple(steps[1:])
    with pytest.raises(ValueError, match="no step ruin; there are run, live"):
        chosen(steps, ["ruin"])
