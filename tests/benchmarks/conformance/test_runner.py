"""Tests of benchmarks/conformance/runner.py: processes that end, hang and crash."""

from pathlib import Path

import pytest

from benchmarks.conformance.runner import Plan, conform
from benchmarks.conformance.verdict import FileRow

PLAN = Plan(
    ways=("seek", "plan", "clip"),
    libraries=("decord",),
    limit_seconds=20,
    worker="tests.benchmarks.conformance.stand_in",
)
HASTY = Plan(ways=PLAN.ways, limit_seconds=2, worker=PLAN.worker)


def row_of(folder: Path, name: str, plan: Plan = PLAN) -> FileRow:
    path = folder / name
    path.write_bytes(b"1234")
    [(row, versions)] = conform([(f"folder/{name}", path)], plan)
    assert all(about == {"fake": "True"} for about in versions.values() if about)
    return row


def test_each_way_of_each_party_gives_its_verdict(tmp_path: Path) -> None:
    row = row_of(tmp_path, "fine.mp4")
    assert (row.name, row.bytes, row.state) == ("folder/fine.mp4", 4, "read")
    assert (row.codec, row.size, row.frames, row.lines) == ("h264", (4, 6), 3, ("mmco",))
    assert [(each.party, each.way, each.kind) for each in row.verdicts] == [
        ("headrace", "seek", "right"),
        ("headrace", "plan", "right"),
        ("headrace", "clip", "right"),
        ("decord", "seek", "right"),
    ]


@pytest.mark.parametrize(
    ("what", "reason"),
    [("crash", "ended by SIGSEGV"), ("traceback", "RuntimeError: no such codec")],
)
def test_a_way_that_ends_its_process_is_named_and_the_others_are_asked_anew(
    what: str, reason: str, tmp_path: Path
) -> None:
    row = row_of(tmp_path, f"{what}-plan.mp4")
    kinds = {each.way: each.kind for each in row.of("headrace")}
    assert kinds == {"seek": "right", "plan": what, "clip": "right"}
    [bad] = [each for each in row.verdicts if each.kind == what]
    assert bad.reason.startswith(reason)
    assert str(tmp_path) not in row.model_dump_json()


def test_a_process_that_hangs_is_killed_when_its_time_is_over(tmp_path: Path) -> None:
    row = row_of(tmp_path, "hang-clip.mp4", HASTY)
    assert [each.kind for each in row.verdicts] == ["right", "right", "hang"]
    assert row.verdicts[2].reason == "no answer within 2 seconds"


def test_where_the_plain_decode_crashes_nothing_is_held_against_it(tmp_path: Path) -> None:
    row = row_of(tmp_path, "crash-plain decode.mp4")
    assert (row.state, row.verdicts) == ("crash", ())
    assert row.reason == "ended by SIGSEGV"


def test_what_is_no_video_is_only_shown_to_headrace(tmp_path: Path) -> None:
    row = row_of(tmp_path, "notes.txt")
    assert (row.state, row.reason) == ("no video", "notes.txt is a text")
    assert [(each.party, each.way) for each in row.verdicts] == [("headrace", "open")]


def test_a_worker_that_cannot_start_is_asked_once_for_each_way(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    path.write_bytes(b"")
    [(row, _)] = conform([("a.mp4", path)], Plan(ways=("seek",), worker="tests.no_such_worker"))
    assert (row.state, "No module named" in row.reason) == ("failed", True)
