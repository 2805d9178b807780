"""This tree beside another commit, turn by turn."""

import pytest
from benchmarks.bench_before import Comparison, Turn, render
from benchmarks.record import ROOT

from benchmarks import bench_before


def test_the_ratio_is_the_median_of_the_turns():
    turns = (Turn(before=100, after=110), Turn(before=50, after=100), Turn(before=200, after=180))
    row = Comparison(question="scan", kind="web", turns=turns)
    assert row.ratio == pytest.approx(1.1)
    assert render(row) == "web scan: 1.10 of before (0.90 to 2.00); 100 -> 110 per second"


def test_the_one_that_goes_first_changes_from_turn_to_turn(monkeypatch, tmp_path):
    asked = []

    def speed(question, request, tree):
        asked.append(tree)
        return 2.0 if tree == ROOT else 1.0

    monkeypatch.setattr(bench_before, "_speed", speed)
    turns = [bench_before._turn("scan", {}, tmp_path, is_odd=bool(k % 2)) for k in range(2)]
    assert asked == [tmp_path, ROOT, ROOT, tmp_path]
    assert {turn.ratio for turn in turns} == {2.0}


def test_the_other_commit_is_checked_out_and_gone_afterwards():
    with bench_before._checked_out("HEAD") as (commit, tree):
        assert (tree / "src" / "headrace" / "__init__.py").is_file()
        assert commit
    assert not tree.exists()
