"""bench_planted: profiles of real loops, changes of their fields, and the table."""

import os
import subprocess
import sys

import pytest

from benchmarks import planted_work
from benchmarks.bench_planted import Judged, PlantedRow, _judge, _profile, text
from benchmarks.planted_work import PLANTED, Loop, Planted, change_of
from benchmarks.record import Rows, origin


@pytest.mark.parametrize(
    ("loop", "words", "options", "expected"),
    [
        (Loop(fetch=8), "num_workers=2", {"num_workers": 2}, {"workers": 2}),
        (Loop(), "persistent_workers=True", {"persistent_workers": True}, {"persistent": True}),
        (Loop(fetch=8, uneven=4), "Half of the work in __getitem__", {}, {"fetch": 4, "uneven": 2}),
        (Loop(own=6), "Half of the work at train.py:7 (slide)", {}, {"own": 3}),
        (Loop(log_lines=30), "Log half as often", {}, {"log_lines": 15}),
        (Loop(save_every=5), "Save half as often", {}, {"save_every": 10}),
        (Loop(eval_every=4), "Evaluate half as often", {}, {"eval_every": 8}),
        (Loop(hog=True), "Move the Python work of the other threads", {}, {"hog": False}),
        (Loop(), "A cheaper forward and backward", {}, None),
    ],
)
def test_advice_changes_the_fields_of_a_loop(loop, words, options, expected):
    assert change_of(loop, words, options) == expected


def test_a_loop_is_profiled_by_the_command_and_judged():
    profiled = _profile("logging at every step", {"batches": 16, "log_lines": 1000})
    assert profiled.session.provenance.configuration["loop"].startswith("planted_work.py:")
    verdict = _judge(PLANTED["logging at every step"], profiled)
    assert verdict.bound_by == ("step",)
    assert verdict.cause == "logging"
    assert verdict.is_right
    assert not _judge(PLANTED["slow optimizer"], profiled).is_right
    assert not _judge(Planted(Loop(), ("step",), "logging", "no such words"), profiled).is_right


@pytest.mark.parametrize("name", PLANTED)
def test_each_loop_has_a_bottleneck(name):
    planted = PLANTED[name]
    assert planted.bound_by
    assert planted.loop != Loop()
    assert change_of(planted.loop, "no such change", {}) is None


def test_the_script_refuses_unknown_loops(tmp_path):
    run = subprocess.run(
        [sys.executable, planted_work.__file__, "no such loop"],
        capture_output=True,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert run.returncode == 2
    assert "invalid choice: 'no such loop'" in run.stderr


def test_the_table_counts_right_verdicts_and_good_predictions():
    fields = {"headline": "The step takes long.", "bound_by": ("step",), "cause": "logging"}
    right = Judged(**fields, is_right=True, is_qualified=False, step_ms=10.0)
    wrong = right.model_copy(update={"is_right": False})
    planned = {"change": "num_workers=2", "predicted": 1.5, "came": (1.4, 1.6)}
    rows = (
        PlantedRow(name="a", quiet=right, busy=wrong, **planned),
        PlantedRow(name="b", quiet=right, busy=right, change="none", predicted=2.0, came=(1.1,)),
        PlantedRow(name="c", failure="exit 1"),
        PlantedRow(name="d", quiet=right, change="d", predicted=3.0, bound="≤ ", came=(1.2,)),
        PlantedRow(name="e", quiet=right, change="e", predicted=3.0, bound="≥ ", came=(2.9,)),
    )
    table = text(Rows[PlantedRow](provenance=origin(), rows=rows))
    assert "4 of 4 on the quiet machine, 1 of 2 beside 2 busy programs; 1 wrong without" in table
    assert "within 25% of the measured speedup: 1 of 2; bounds that hold: 1 of 2." in table
    assert "| d | step: logging | right | – | `d` | ≤ 3.00 | 1.20 |" in table
    assert "failed: exit 1" in table
