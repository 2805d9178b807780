"""Tests of benchmarks/tables/scaling.py: what more and more files cost is what was measured."""

from benchmark_fakes import result
from benchmarks.record import Repeat, Row
from benchmarks.tables.scaling import scaling

SMALL = Repeat(
    scan_seconds=0.2,
    open_seconds=0.01,
    first_seconds=1.5,
    lookahead=5000,
    warm_up_frames=5120,
    frames=20_000,
    wall_seconds=20.0,
    cpu_seconds=38.0,
    others_cpu_seconds=2.5,
    decoded=16_000,
    open_files=10,
    memory_bytes=900 << 20,
)
LARGE = SMALL.model_copy(
    update={
        "scan_seconds": None,
        "open_seconds": 11.4,
        "warm_up_frames": 2048,
        "frames": 640,
        "decoded": 20_480,
        "others_cpu_seconds": 0.0,
        "open_files": 93,
    }
)
ROWS = (
    Row(name="headrace", kind="10 files", repeats=(SMALL,)),
    Row(name="headrace", kind="1,000 files", failure="killed | out of memory"),
    Row(name="headrace", kind="10,000 files", repeats=(LARGE,)),
)
ASKED = {
    "batch_size": 128,
    "memory_budget": "1GiB",
    "warm_up_seconds": 60.0,
    "seconds": 20.0,
    "scan_at_most": 1000,
    "videos": 40,
}


def test_each_size_has_a_row_and_what_failed_stays_in() -> None:
    lines = scaling(result(*ROWS, **ASKED)).splitlines()
    assert lines[0].startswith("|  | open, new | open, known | first batch | frames/s |")
    assert lines[2:5] == [
        "| 10 files | 0.20 s | 0.01 s | 1.50 s | 1,000 | 0.80 | 900 MiB | 10 |",
        "| 1,000 files | failed: killed / out of memory |  |  |  |  |  |  |",
        "| 10,000 files |  | 11 s | 1.50 s | 32* | 32.00* | 900 MiB | 93 |",
    ]
    assert "after at most 60 s of warm-up" in lines[6]
    assert lines[7].startswith("\\*: still filling its window")
    assert "in 1 of 2 runs, 6% in the worst. Some CPU, 2 cores, 8 GiB" in lines[-1]


def test_the_star_is_explained_only_where_there_is_one() -> None:
    assert "\\*" not in scaling(result(ROWS[0], **ASKED))
