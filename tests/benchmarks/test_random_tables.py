"""Tests of the tables of random access: who failed, who was wrong, and how much each one costs."""

from collections.abc import Sequence

from benchmarks.equality import Equality
from benchmarks.record import Conditions, RandomRepeat, RandomResult, RandomRow
from benchmarks.tables import random_access

CONDITIONS = Conditions(
    date="2026-11-21",
    cpu="Some CPU",
    cores=2,
    memory_bytes=8 << 30,
    system="Some Linux",
    python="CPython 3.11.7",
    commit="0123abc",
    parameters={
        "size": [256, 256],
        "workers": 2,
        "rounds": 3,
        "seconds": 8.0,
        "batch_size": 8,
        "clip": [16, 2],
    },
    media={
        "recipe": {"size": [720, 1280]},
        "kinds": {"web": {"videos": 4, "frames": 1200, "mean_gop": 77.4, "b_frame_share": 0.69}},
    },
)


def repeat(speed: float, decoded: int | None, others: float) -> RandomRepeat:
    return RandomRepeat(
        frames=1000,
        wall_seconds=1000 / speed,
        cpu_seconds=2.0,
        others_cpu_seconds=others,
        warm_up_frames=128,
        decoded=decoded,
        memory_bytes=100 << 20,
    )


def row(
    library: str,
    speeds: Sequence[float] = (),
    *,
    wrong: int = 0,
    difference: float = 0.0,
    failure: str | None = None,
    decoded: int | None = None,
    others: float = 0.0,
) -> RandomRow:
    return RandomRow(
        library=library,
        kind="web",
        versions={library: "1.0"},
        equality=Equality(frames=256, missing=0, wrong=wrong, max_mean_difference=difference),
        failure=failure,
        repeats=tuple(repeat(speed, decoded, others) for speed in speeds),
    )


RESULT = RandomResult(
    conditions=CONDITIONS,
    rows=(
        row("baseline", [10, 20, 40], difference=0.5),
        row("opencv", wrong=5),
        row("spdl", failure="no | index"),
        row("torchcodec", [20, 60, 40], difference=0.25, others=2.0),
        row("headrace_1GiB", [400, 500, 800], decoded=1500),
    ),
)
TABLE = [
    "| way | web: frames/s | times the first | decoded ÷ delivered (web) | CPU ms per frame (web) "
    "| memory |",
    "| --- | ---: | ---: | ---: | ---: | ---: |",
    "| DataLoader, 2 workers, PyAV: open and seek for each frame | 20 (10–40) | 1.0 |  | 2.0 |  |",
    "| OpenCV, captures kept, grouped by file | wrong frames: 5 of 256 |  |  |  |  |",
    "| SPDL, packets kept, grouped by file | failed: no / index |  |  |  |  |",
    "| torchcodec, decoders kept, grouped by file | 40 (20–60) | 2.0 |  | 2.0 | 100 MiB |",
    "| **headrace**, 1 GiB | 500 (400–800) | 25.0 | 1.50 | 2.0 | 100 MiB |",
]


def test_the_table_keeps_what_failed_and_what_was_wrong() -> None:
    assert random_access(RESULT).splitlines()[: len(TABLE)] == TABLE


def test_the_notes_say_what_was_asked_how_exactly_and_how_quiet_it_was() -> None:
    notes = random_access(RESULT).split("\n\n")[1]
    assert notes.startswith("Batches of 8 clips of 16 frames, 2 apart, drawn uniformly")
    assert "3 interleaved rounds (lowest–highest) of at least 8 s each" in notes
    assert "none differs from a linear decode by more than 0.50 grey levels" in notes
    assert "more than 5% of the CPU time in 3 of 9 runs, 50% in the worst" in notes


def test_a_way_with_fewer_rounds_than_the_first_has_no_ratio() -> None:
    rows = (row("baseline", [10, 20, 40]), row("decord", [20]))
    [line] = [
        x
        for x in random_access(RESULT.model_copy(update={"rows": rows})).splitlines()
        if x.startswith("| decord")
    ]
    assert line.split(" | ")[1:3] == ["20 (20–20)", ""]
