"""How do time to open, time to the first batch, and frames per second change up to 10,000 files?

python -m benchmarks.bench_scaling --sizes 10 100 --seconds 5    # a first look
python -m benchmarks.bench_scaling                               # the full run, an hour

The files are copies of a few videos; a number is appended to each, so no two files are equal. Sets
of up to 1,000 files are also read with a folder for decoded frames (`spill`), for a whole epoch and
in the next one. 10,000 files and their frames take 30 GB of disk.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.kit import CORES, SIZE, Benchmark, begin, task_of, tried
from benchmarks.loading import copy_files
from benchmarks.markdown import budget, machine, others, rendered, size
from benchmarks.media import DEFAULT_ROOT, paths
from benchmarks.record import Repeat, Row, TimedResult
from benchmarks.worker import Ask, ask_worker

EPOCHS: Mapping[str, Mapping[str, Any]] = {
    "headrace, spill, first epoch": {"warm_up_seconds": 0.0, "seconds": 0.0, "whole": "epoch"},
    "headrace, spill, second epoch": {"seed": 1},
}
"""Row with `spill` → parameters that differ in its request."""


def measure(
    *,
    media: Path = DEFAULT_ROOT,
    count: int = 40,
    sizes: tuple[int, ...] = (10, 40, 100, 1_000, 10_000),
    spill_at_most: int = 1_000,
    seconds: float = 20.0,
    warm_up: float = 900.0,
    batch_size: int = 128,
    memory: str = "1GiB",
    workers: int = CORES,
) -> Iterator[TimedResult]:
    """Measure each set of files.

    Args:
        media: folder of the videos
        count: videos of kind web to copy
        sizes: files per set
        spill_at_most: max files in a set that is also read with `spill`
        seconds: min timed seconds per set
        warm_up: max seconds of warm-up
        batch_size: frames in a batch
        memory: memory budget for frames
        workers: threads and cores
    """
    request = {"size": SIZE, "batch_size": batch_size, "workers": workers, "memory_budget": memory}
    request |= {"warm_up_seconds": warm_up, "seconds": seconds}
    result = TimedResult(**begin(**request, videos=count))
    with TemporaryDirectory() as folder:
        copies = copy_files(paths(media, "web", count), Path(folder) / "videos", max(sizes))
        for number in sizes:
            for row in measure_size(copies[:number], request, spills=number <= spill_at_most):
                result = result.plus(row)
                yield result


def measure_size(
    files: Sequence[Path], request: Mapping[str, Any], *, spills: bool, ask: Ask = ask_worker
) -> Iterator[Row]:
    """Yield the row of a set, opened with new and with known files; then the rows with `spill`.

    Each row is measured in its own process.
    """
    with TemporaryDirectory() as folder:
        task = task_of("loading:load", files, counts_files=True, store=f"{folder}/known", **request)
        spill = Path(folder) / "spill"

        def take(row: Row) -> Row:
            if row.name in EPOCHS:
                answer = ask({**task, "spill": str(spill), **EPOCHS[row.name]})
                stored = sum(file.stat().st_size for file in spill.rglob("*") if file.is_file())
                return row.timed(Repeat(written_bytes=stored, **answer))
            scan_seconds = ask({**task, "seconds": None})["open_seconds"]
            return row.timed(Repeat(scan_seconds=scan_seconds, **ask(task)))

        for name in ("headrace", *(EPOCHS if spills else ())):
            yield tried(Row(name=name, kind=f"{len(files):,} files"), take)


def scaling(result: TimedResult) -> str:
    """Return a line per set and row."""
    parameters = result.provenance.configuration
    notes = [
        f"`FrameLoader` with batches of {parameters['batch_size']} uniformly random frames, "
        f"{size(result)}, {budget(result)}, {parameters['workers']} workers. Each row is one run "
        f"in its own process, of at least {parameters['seconds']:g} s after at most "
        f"{parameters['warm_up_seconds']:g} s of warm-up.",
        "*New*: every file is scanned, which happens once. *Known*: every index is read from disk. "
        "*Memory*: peak RSS minus RSS at the start, indexes included. *Open files*: max after a "
        "batch, minus those at the start. *Amplification*: frames decoded ÷ frames delivered.",
        "*spill*: decoded frames are stored, packed, in a folder. The first epoch is timed from "
        "its second batch to its end; the second epoch in another process, after a warm-up.",
        f"The files are copies of {parameters['videos']} videos; no two files are equal. They are "
        "read from the page cache as far as they fit.",
        f"{others(result.rows)} {machine(result)}",
    ]
    if any(_star(row) for row in result.rows if row.repeats):
        notes.insert(
            1,
            "\\*: measured before the lookahead was full. Until then, each GOP is decoded for the "
            "first time, so the rate is close to the rate without lookahead. `headrace plan` "
            "predicts the rate in steady state.",
        )
    columns = {
        "": lambda row: ", ".join([row.kind, *row.name.split(", ")[1:]]),
        "open, new": lambda row: _seconds(row.repeats[0].scan_seconds),
        "open, known": lambda row: _seconds(row.repeats[0].open_seconds),
        "first batch": lambda row: _seconds(row.repeats[0].first_seconds),
        "frames/s": lambda row: f"{row.speed:,.0f}{_star(row)}",
        "amplification": lambda row: f"{row.amplification:.2f}{_star(row)}",
        "memory": lambda row: f"{row.repeats[0].memory_bytes / 2**20:,.0f} MiB",
        "open files": lambda row: f"{row.repeats[0].open_files:,}",
        "on disk": lambda row: _gigabytes(row.repeats[0].written_bytes),
    }
    return rendered(result.rows, columns, *notes)


def _star(row: Row) -> str:
    return "" if row.name in EPOCHS or row.repeats[0].is_filled else "*"


def _seconds(number: float | None) -> str:
    if number is None:
        return ""
    return f"{number:.2f} s" if number < 10 else f"{number:.0f} s"


def _gigabytes(number: int | None) -> str:
    return "" if number is None else f"{number / 1e9:,.1f} GB"


BENCHMARK = Benchmark("scaling", __doc__, measure, scaling)

if __name__ == "__main__":
    BENCHMARK.main()
