"""Tests of the tables of extraction: beside ffmpeg, at scale, from a store."""

import pytest

from benchmark_fakes import result, row
from benchmarks.bench_extract import kind
from benchmarks.bench_extract_memory import MemoryResult, Sample
from benchmarks.bench_plan import PlanResult, PlanRow
from benchmarks.bench_remote import PATTERNS, RemoteResult, RemoteRow, Turn
from benchmarks.extracting.cases import CASES
from benchmarks.record import Repeat, Row
from benchmarks.tables import sizing
from benchmarks.tables.extracting import extracting
from benchmarks.tables.remote import remote

MIB = 2**20


def _row(way, seconds, size):
    about = {"frames": 80, "written_bytes": 80 * size, "cpu_seconds": 4.0}
    repeats = tuple(Repeat(wall_seconds=s, **about) for s in seconds)
    return Row(name=way, kind=kind(CASES[0], 1), repeats=repeats)


EXTRACT = result(_row("headrace", [4.0, 5.0], 100_000), _row("ffmpeg", [2.0, 5.0], 78_000), cores=2)


def _memory(*held):
    samples = [Sample(seconds=0.0, num_bytes=1, processes=1)]
    samples += [Sample(seconds=1.0 + n, num_bytes=h * MIB, processes=3) for n, h in enumerate(held)]
    return MemoryResult(
        provenance=result().provenance,
        samples=tuple(samples),
        pictures=1800,
        media_seconds=3600.0,
        wall_seconds=100.0,
    )


def test_each_case_stands_with_how_many_times_as_fast_it_is():
    text = extracting(EXTRACT, None)
    assert (
        f"| {kind(CASES[0], 1)} | 4.5 (4.0–5.0) | 3.5 (2.0–5.0) | 0.75 (0.50–1.00) |  | 100 / 78 |"
        in text
    )
    assert "not measured" in text


def test_memory_is_held_quarter_against_quarter_without_start_and_end():
    memory = _memory(50, 100, 100, 110)
    assert [memory.quarter(n) / MIB for n in range(4)] == [50, 100, 100, 110]
    assert memory.growth == pytest.approx(0.1)
    assert "60 min, 1,800 pictures in 100 s" in extracting(EXTRACT, memory)
    assert "50, 100, 100, 110 MiB" in extracting(EXTRACT, memory)


def test_cores_for_a_million_hours_follow_from_the_speed_of_one():
    sequential = result(row("headrace", [600.0], cpu_seconds=4.0))
    text = sizing.decoding(sequential, EXTRACT)
    # 1,200 frames in 4 s of a core are 10 hours of 30 frames/s in an hour of it.
    assert "| web: every frame, to 256×256 | 10 | 4,167 | 139 |" in text
    assert f"| {CASES[0].name} | 20 | 2,083 | 69 |" in text


def test_the_plan_is_carried_on_to_a_million_hours():
    known = Repeat(wall_seconds=0.5, memory_bytes=5 * 10**6, written_bytes=2_000_000)
    rows = (
        PlanRow(hours=1.0, videos=45, new=Repeat(wall_seconds=5.0), known=known),
        PlanRow(hours=10.0, videos=450, failure="no memory"),
    )
    text = sizing.planning(PlanResult(provenance=result().provenance, rows=rows[:1]))
    assert "| 1 h, 45 videos | 5.0 | 0.5 | 5 MiB | 2.0 MB |" in text
    assert "would hold 5.0 TB" in text
    assert "failed: no memory" in sizing.planning(
        PlanResult(provenance=result().provenance, rows=rows)
    )


def test_features_are_counted():
    assert "| 512 numbers, float16 | 3.7 TB | 7,200 | 14 million |" in sizing.features()


def test_a_way_to_a_store_stands_with_what_it_asked_of_it():
    turn = Turn(
        repeat=Repeat(wall_seconds=2.0, frames=10),
        reads=7,
        read_bytes=70,
        seeks=2,
        requests=3,
        sent_bytes=15_000_000,
    )
    rows = tuple(
        RemoteRow(way=way, pattern=pattern, latency_ms=late, turns=(turn,))
        for way, late in (("python_file", None), ("fsspec_http", 20))
        for pattern in PATTERNS[:2]
    )
    rows += (RemoteRow(way="fsspec_http", pattern="random", latency_ms=20, failure="no aiohttp"),)
    found = RemoteResult(
        provenance=result().provenance, file_bytes=12_000_000, frames=2400, rows=rows
    )
    text = remote(found)
    assert (
        "| fsspec, 5 MB ahead; 20 ms | 2.00 | 2.00 | failed: no aiohttp | 3, 15.0 | 3, 15.0 |  |"
        in text
    )
    assert "7 reads and 2 seeks (scan), 7 reads and 2 seeks (every frame)" in text
