"""Tests of benchmarks/record.py: what is kept is read again, and repeats are not mixed."""

from pathlib import Path

import pytest

from benchmark_fakes import origin, result, row
from benchmarks.record import Repeat, TimedResult

ORDER = ["baseline", "decord", "spdl"]
RESULT = result(row("decord", [10.0]), row("spdl"))


def test_rows_take_the_places_of_their_older_selves() -> None:
    newer, other = row("decord", failure="no decoder"), row("decord", kind="cam")
    found = RESULT.updated([newer, other], ORDER)
    assert found.rows == (newer, other, RESULT.rows[1])
    assert found.row("decord", "cam") == other
    assert found.row("spdl", "cam") is None


def test_a_way_timed_later_stands_where_it_belongs() -> None:
    """The table compares all ways with the first one."""
    late = row("baseline")
    assert RESULT.updated([late], ORDER).rows == (late, *RESULT.rows)


def test_an_interrupted_run_goes_on_in_another_process(tmp_path: Path) -> None:
    RESULT.save(tmp_path / "out.json")
    later = RESULT.provenance.model_copy(update={"pid": 7, "command": ("again", "--resume")})
    now = RESULT.model_copy(update={"provenance": later, "rows": ()})
    assert now.resumed(tmp_path / "out.json") == RESULT


def test_without_a_file_a_run_begins(tmp_path: Path) -> None:
    assert RESULT.resumed(tmp_path / "out.json") is RESULT


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("commit", "4567def"),
        ("configuration", {"repeats": 5}),
        ("machine", origin().machine.model_copy(update={"usable_cores": 4})),
    ],
)
def test_repeats_under_other_conditions_are_not_mixed(
    name: str, value: object, tmp_path: Path
) -> None:
    RESULT.save(tmp_path / "out.json")
    other = RESULT.provenance.model_copy(update={name: value})
    with pytest.raises(ValueError, match=rf"other conditions \({name}\)"):
        RESULT.model_copy(update={"provenance": other}).resumed(tmp_path / "out.json")


def test_what_nobody_tells_is_left_out_and_read_as_none(tmp_path: Path) -> None:
    RESULT.save(tmp_path / "out.json")
    assert "null" not in (tmp_path / "out.json").read_text()
    assert TimedResult.load(tmp_path / "out.json") == RESULT
    assert Repeat(wall_seconds=1.0).others_share is None


def test_amplification_is_over_all_repeats_that_tell() -> None:
    assert row("headrace", [10, 20], decoded=1800).amplification == 1.5
    assert row("decord", [10, 20]).amplification is None
