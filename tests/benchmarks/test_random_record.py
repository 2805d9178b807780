"""Tests of the results of random access: a run goes on where it ended, if nothing else changed."""

from pathlib import Path

import pytest
from benchmarks.record import Conditions, RandomResult, RandomRow

CONDITIONS = Conditions(
    date="2026-11-21",
    cpu="Some CPU",
    cores=2,
    memory_bytes=8 << 30,
    system="Some Linux",
    python="CPython 3.11.7",
    commit="0123abc",
    parameters={"size": (256, 256), "clip": (16, 2), "rounds": 5},
)
ORDER = ["baseline", "decord", "spdl"]
RESULT = RandomResult(
    conditions=CONDITIONS,
    rows=(RandomRow(library="decord", kind="web"), RandomRow(library="spdl", kind="web")),
)


def test_rows_take_the_places_of_their_older_selves() -> None:
    newer = RandomRow(library="decord", kind="web", failure="no decoder")
    other = RandomRow(library="decord", kind="cam")
    result = RESULT.updated([newer, other], ORDER)
    assert result.rows == (newer, other, RESULT.rows[1])
    assert result.row("decord", "cam") == other
    assert result.row("spdl", "cam") is None


def test_a_way_timed_later_stands_where_it_belongs() -> None:
    """The table compares all ways with the first one."""
    late = RandomRow(library="baseline", kind="web")
    assert RESULT.updated([late], ORDER).rows == (late, *RESULT.rows)


def test_an_interrupted_run_goes_on_on_another_day(tmp_path: Path) -> None:
    RESULT.save(tmp_path / "out.json")
    today = CONDITIONS.model_copy(update={"date": "2026-11-22"})
    assert RandomResult.begun(tmp_path / "out.json", today).rows == RESULT.rows


def test_without_a_file_a_run_begins(tmp_path: Path) -> None:
    assert RandomResult.begun(tmp_path / "out.json", CONDITIONS).rows == ()


@pytest.mark.parametrize(
    ("name", "value"), [("commit", "4567def"), ("parameters", {"rounds": 5}), ("cores", 4)]
)
def test_repeats_under_other_conditions_are_not_mixed(
    name: str, value: object, tmp_path: Path
) -> None:
    RESULT.save(tmp_path / "out.json")
    with pytest.raises(ValueError, match=rf"other conditions \({name}\)"):
        RandomResult.begun(tmp_path / "out.json", CONDITIONS.model_copy(update={name: value}))
