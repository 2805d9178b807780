"""CSV of every kind of row: one line per repetition, with units in the column names."""

import csv
import re
from pathlib import Path

import pytest

from bench import test_affinity, test_live, test_memory, test_overlap, test_prefetch
from bench import test_workers as workers
from bench.checksums import CHECKSUMS
from bench.records import recorded
from headrace.bench.decode import DECODE, DecodeRecord, MethodRecord
from headrace.bench.registry import BENCHMARKS
from headrace.bench.suite.suite_selection import read_record

RECORDED = Path(__file__).parents[1] / "surface" / "recorded" / "bench"
NAMED = {benchmark.name: benchmark for benchmark in BENCHMARKS}
UNIT = re.compile(
    r"(^|_)(m?s|seconds|bytes|frames|images|pictures|levels|fps|per_second|in_a_second)(_|$)"
)
COUNTS = {
    *("repetition", "workers", "ranks", "threads", "num_cores", "prefetch_factor", "queue_depth"),
    *("batch_size", "compared", "decoded", "delivered", "seeks", "opens", "results", "warm_up"),
    *("dropped_stale_at_decode", "dropped_overflow_at_decode", "dropped_stale_at_batch"),
}
SHARES = {
    *("bias", "design_effect", "inflation", "same_class", "most_changed", "difference", "fps_cv"),
    "level",
}
"""Numbers without a unit; the unit of a load's level depends on the search."""


def lines(benchmark, record):
    """Return the parsed lines of a record's CSV."""
    return list(csv.DictReader(benchmark.csv(record).splitlines()))


def columns(rows, *names):
    """Return the cells of some columns, one tuple per line; None: no such column."""
    return [tuple(line.get(name) for name in names) for line in rows]


CASES = {
    "repetitions": (
        "workers",
        workers.recorded({0: [10.0, 8.0], 2: [5.0]}),
        ("row", "repetition", "workers", "seconds", "frames_per_second", "memory_bytes"),
        [
            ("0", "1", "0", "10.0", "100.0", "200000000"),
            ("0", "2", "0", "8.0", "125.0", "200000000"),
            ("2", "1", "2", "5.0", "200.0", "600000000"),
        ],
    ),
    "a series has statistics; a p95 needs 90 numbers": (
        "prefetch",
        test_prefetch.recorded(test_prefetch.turn(1, 8, waits=(5.0, 9.0) * 45)),
        ("intervals_ms_mean", "intervals_ms_std", "intervals_ms_p95", "waits_ms_p95", "copies_ms"),
        [("100.0", "8.0", "", "9.0", None)],
    ),
    "one load": (
        "live",
        test_live.recorded(test_live.step(60, 143, ("late", "lost"), dropped=50)),
        (
            *("row", "frames_per_second", "latency_ms_p95", "dropped_overflow_at_decode"),
            *("work_ms_model", "broken_by", "repetition"),
        ),
        [("60.0 frames/s", "60.0", "143.0", "50", "6.0", "late; lost", None)],
    ),
    "a cell of a grid": (
        "memory",
        test_memory.recorded(*test_memory.USUAL[:2]),
        ("row", "size", "batch_size", "peak_bytes"),
        [
            ("float32 × 1", "720p", "1", str(400 << 20)),
            ("float32 × 1", "4K", "1", str(500 << 20)),
        ],
    ),
    "a whole run, then the model alone": (
        "affinity",
        test_affinity.record([1.0, 0.5], test_affinity.EVERY, test_affinity.SINGLE),
        ("row", "way", "repetition", "frames", "threads"),
        [
            ("all cores", "whole: all cores", "1", "100.0", ""),
            ("all cores", "whole: all cores", "2", "100.0", ""),
            ("all cores", "model: all cores", "1", "100.0", ""),
            ("all cores", "model: all cores", "2", "100.0", ""),
            ("all cores, 1 thread", "whole: all cores, 1 thread", "1", "100.0", "1"),
            ("all cores, 1 thread", "whole: all cores, 1 thread", "2", "100.0", "1"),
            ("all cores, 1 thread", "model: all cores, 1 thread", "1", "100.0", "1"),
            ("all cores, 1 thread", "model: all cores, 1 thread", "2", "100.0", "1"),
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_lines_of_a_row(case):
    name, record, names, expected = CASES[case]
    assert columns(lines(NAMED[name], record), *names) == expected


def test_a_skipped_variant_has_a_line_with_the_reason():
    methods = (
        MethodRecord(way="PyAV", device="CPU", is_ours=True, compared=8),
        MethodRecord(way="NVDEC", device="GPU", is_ours=True, status="no GPU", why_not="a, or b"),
    )
    read = {"videos": 1, "size": (72, 128), "codecs": ("h264",), "access": "in-order"}
    rows = lines(DECODE, recorded({"PyAV": [2.0]}, DecodeRecord, methods=methods, **read))
    names = ("row", "device", "compared", "why_not", "frames", "frames_per_second", "seconds")
    assert columns(rows, *names) == [
        ("PyAV", "CPU", "8", "", "100.0", "50.0", "2.0"),
        ("NVDEC", "GPU", "0", "a, or b", "", "", ""),
    ]


def test_the_amount_is_named_by_the_unit_of_the_benchmark():
    [line] = lines(CHECKSUMS, recorded({"crc32": [2.0]}))
    assert (line["MB"], line["MB_per_second"]) == ("100.0", "50.0")
    assert "amount" not in line


def test_paced_repetitions_follow_repetitions_at_full_speed():
    rows = lines(NAMED["overlap"], test_overlap.recorded(test_overlap.USUAL))
    ways = columns(rows, "way", "repetition", "latency_ms_p50")
    assert ways[:4] == [
        ("sequential", "1", ""),
        ("sequential", "2", ""),
        ("sequential", "1", "10.0"),
        ("sequential", "2", "10.0"),
    ]


@pytest.mark.parametrize("name", NAMED)
def test_recorded_benchmarks_have_every_row_and_a_unit_for_every_number(name):
    record = read_record(NAMED[name], RECORDED)
    rows = lines(NAMED[name], record)
    table = NAMED[name].page(record).table
    assert [*dict.fromkeys(line["row"] for line in rows)] == [
        *dict.fromkeys(row[0] for row in table.rows)
    ]
    numbers = {
        column for line in rows for column, cell in line.items() if re.fullmatch(r"[-\d.e]+", cell)
    }
    unitless = {column for column in numbers - COUNTS - SHARES if not UNIT.search(column)}
    assert unitless - {"row", "cores"} == set()
