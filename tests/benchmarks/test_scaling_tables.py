"""What the README says of more and more files is what was measured."""

from benchmarks.record import Conditions, ScalingResult, ScalingRow
from benchmarks.scaling_tables import scaling

CONDITIONS = Conditions(
    date="2026-11-21",
    cpu="Some CPU",
    cores=2,
    memory_bytes=8 << 30,
    system="Some Linux",
    python="CPython 3.11.7",
    commit="0123abc",
    parameters={
        "size": (256, 256),
        "batch_size": 128,
        "workers": 2,
        "memory_budget": "1GiB",
        "warm_up_seconds": 60.0,
        "seconds": 20.0,
        "scan_at_most": 1000,
        "videos": 40,
    },
)
SMALL = ScalingRow(
    files=10,
    scan_seconds=0.2,
    open_seconds=0.01,
    first_batch_seconds=1.5,
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
        "files": 10_000,
        "scan_seconds": None,
        "open_seconds": 11.4,
        "warm_up_frames": 2048,
        "frames": 640,
        "decoded": 20_480,
        "others_cpu_seconds": 0.0,
        "open_files": 93,
    }
)
FAILED = ScalingRow(files=1_000, failure="killed | out of memory")


def test_each_size_has_a_row_and_what_failed_stays_in() -> None:
    lines = scaling(ScalingResult(conditions=CONDITIONS, rows=(SMALL, FAILED, LARGE))).splitlines()
    assert lines[0].startswith("| files | open, new | open, known | first batch | frames/s |")
    assert lines[2:5] == [
        "| 10 | 0.20 s | 0.01 s | 1.50 s | 1,000 | 0.80 | 900 MiB | 10 |",
        "| 1,000 | failed: killed / out of memory |  |  |  |  |  |  |",
        "| 10,000 |  | 11 s | 1.50 s | 32* | 32.00* | 900 MiB | 93 |",
    ]
    assert "after at most 60 s of warm-up" in lines[6]
    assert lines[7].startswith("\\*: still filling its window")
    assert "in 1 of 2 runs. Some CPU, 2 cores, 8 GiB" in lines[-1]


def test_the_star_is_explained_only_where_there_is_one() -> None:
    assert "\\*" not in scaling(ScalingResult(conditions=CONDITIONS, rows=(SMALL,)))
