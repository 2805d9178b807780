"""What do 10 to 10,000 files cost: until they are open, for the first batch, and then?

python -m benchmarks.bench_scaling --sizes 10 100 --seconds 5    # a first look
python -m benchmarks.bench_scaling                               # the figures of the docs

The files are copies of the same few videos; each is a file of its own to headrace, and has a
content of its own. Sets of up to 1,000 are also read with a folder for decoded frames (`spill`),
a whole epoch and the next one. About 35 minutes; 10,000 files and their frames take 30 GB.
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
"""Name of a row with a disk → what differs in its request."""


def measure(
    *,
    media: Path = DEFAULT_ROOT,
    count: int = 40,
    sizes: tuple[int, ...] = (10, 40, 100, 1_000, 10_000),
    spill_at_most: int = 1_000,
    seconds: float = 20.0,
    warm_up: float = 60.0,
    batch_size: int = 128,
    memory: str = "1GiB",
    workers: int = CORES,
) -> Iterator[TimedResult]:
    """Measure one size after the other.

    Args:
        media: their folder
        count: videos of kind web to copy
        sizes: files in a set
        spill_at_most: files in a set that is also read with a disk
        seconds: that a size is timed for
        warm_up: seconds before, at most
        batch_size: frames in a batch
        memory: that frames may take
        workers: threads and cores
    """
    asked = {"size": SIZE, "batch_size": batch_size, "workers": workers, "memory_budget": memory}
    asked |= {"warm_up_seconds": warm_up, "seconds": seconds}
    result = TimedResult(**begin(**asked, videos=count))
    with TemporaryDirectory() as folder:
        copies = copy_files(paths(media, "web", count), Path(folder) / "videos", max(sizes))
        for number in sizes:
            for row in measure_size(copies[:number], asked, spills=number <= spill_at_most):
                result = result.plus(row)
                yield result


def measure_size(
    files: Sequence[Path], asked: Mapping[str, Any], *, spills: bool, ask: Ask = ask_worker
) -> Iterator[Row]:
    """Yield the set without a disk, opened as new and as known files; with one, if `spills`.

    Each is read in a process of its own.
    """
    with TemporaryDirectory() as folder:
        task = task_of("loading:load", files, counts_files=True, store=f"{folder}/known", **asked)
        spill = Path(folder) / "spill"

        def take(row: Row) -> Row:
            if row.name in EPOCHS:
                found = ask({**task, "spill": str(spill), **EPOCHS[row.name]})
                stored = sum(file.stat().st_size for file in spill.rglob("*") if file.is_file())
                return row.timed(Repeat(written_bytes=stored, **found))
            scan_seconds = ask({**task, "seconds": None})["open_seconds"]
            return row.timed(Repeat(scan_seconds=scan_seconds, **ask(task)))

        for name in ("headrace", *(EPOCHS if spills else ())):
            yield tried(Row(name=name, kind=f"{len(files):,} files"), take)


def scaling(result: TimedResult) -> str:
    """Return a line per number of files."""
    said = result.provenance.configuration
    notes = [
        f"`FrameLoader`, batches of {said['batch_size']} uniformly random frames, "
        f"{size(result)}, {budget(result)}, {said['workers']} workers; one run each, of "
        f"at least {said['seconds']:g} s after at most {said['warm_up_seconds']:g} s of warm-up, "
        "in a process of its own.",
        "*New*: every file is scanned, once ever. *Known*: every index comes from disk. Memory is "
        "the peak above what the process had before, indexes included; open files are the most "
        "that were seen after any batch, beside those of the process. Amplification is frames "
        "decoded for each one delivered.",
        "*spill*: decoded frames are kept, packed, in a folder. The first epoch is timed whole, "
        "from its second batch; the second one, by another process, after a warm-up.",
        f"The files are copies of {said['videos']} videos, each with a content of its own; they "
        "are read from the page cache as far as they fit.",
        f"{others(result.rows)} {machine(result)}",
    ]
    if any(_star(row) for row in result.rows if row.repeats):
        notes.insert(
            1,
            "\\*: still filling its window, in which every GOP is met for the first time, so "
            "nearly as slow as without looking ahead; steady later. `headrace plan` predicts how "
            "fast.",
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
