"""What do 10, 100, 1,000 and 10,000 files cost: until they are open, for the first batch, and then?

python -m benchmarks.bench_scaling --sizes 10 100 --seconds 5    # a first look
python -m benchmarks.bench_scaling                               # the figures of the docs

The files are links to the same few videos; each link is a file of its own to headrace. A scan takes
some 10 ms a file, so that only sets of up to 1,000 are also opened as new ones. About 7 minutes.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.kit import CORES, SIZE, Benchmark, begin, task_of, tried
from benchmarks.loading import know, link_files
from benchmarks.markdown import machine, others, rendered, size
from benchmarks.media import DEFAULT_ROOT, paths
from benchmarks.record import Repeat, Row, TimedResult
from benchmarks.worker import Ask, ask_worker
from headrace import IndexStore


def measure(
    *,
    media: Path = DEFAULT_ROOT,
    count: int = 40,
    sizes: tuple[int, ...] = (10, 100, 1_000, 10_000),
    scan_at_most: int = 1_000,
    seconds: float = 20.0,
    warm_up: float = 60.0,
    batch_size: int = 128,
    memory: str = "1GiB",
    workers: int = CORES,
) -> Iterator[TimedResult]:
    """Measure one size after the other.

    Args:
        media: their folder
        count: videos of kind web to link to
        sizes: files in a set
        scan_at_most: new files in a set
        seconds: that a size is timed for
        warm_up: seconds before, at most
        batch_size: frames in a batch
        memory: that frames may take
        workers: threads and cores
    """
    files = paths(media, "web", count)
    asked = {"size": SIZE, "batch_size": batch_size, "workers": workers, "memory_budget": memory}
    asked |= {"warm_up_seconds": warm_up, "seconds": seconds}
    result = TimedResult(**begin(**asked, scan_at_most=scan_at_most, videos=count))
    with TemporaryDirectory() as folder:
        place = Path(folder)
        links = link_files(files, place / "videos", max(sizes))
        know(files, links, IndexStore(place / "known"))
        for number in sizes:
            row = measured(links[:number], place, asked, scans=number <= scan_at_most)
            result = result.model_copy(update={"rows": (*result.rows, row)})
            yield result


def measured(
    links: Sequence[Path],
    place: Path,
    asked: Mapping[str, Any],
    *,
    scans: bool,
    ask: Ask = ask_worker,
) -> Row:
    """Measure the set in one process as new files, if `scans`, and in another as known files."""
    task = task_of("loading:load", links, counts_files=True, **asked)

    def take(row: Row) -> Row:
        scanned = {"store": str(place / f"unknown-{len(links)}"), "seconds": None}
        scan_seconds = ask({**task, **scanned})["open_seconds"] if scans else None
        known = ask({**task, "store": str(place / "known")})
        return row.timed(Repeat(scan_seconds=scan_seconds, **known))

    return tried(Row(name="headrace", kind=f"{len(links):,} files"), take)


def scaling(result: TimedResult) -> str:
    """Return a line per number of files."""
    said = result.provenance.configuration
    notes = [
        f"`FrameLoader`, batches of {said['batch_size']} uniformly random frames, "
        f"{size(result)}, {said['memory_budget']}, {said['workers']} workers; one run each, of "
        f"at least {said['seconds']:g} s after at most {said['warm_up_seconds']:g} s of warm-up, "
        "in a process of its own.",
        "*New*: every file is scanned, once ever; not timed above "
        f"{said['scan_at_most']:,} files. *Known*: every index comes from disk. Memory is the peak "
        "above what the process had before, indexes included; open files are the most that were "
        "seen after any batch, beside those of the process.",
        f"The files are links to {said['videos']} videos, so they read from the page cache; sets "
        "of so many different files that do not fit it were not measured.",
        f"{others(result.rows)} {machine(result)}",
    ]
    if not all(repeat.is_filled for row in result.rows for repeat in row.repeats):
        notes.insert(
            1,
            "\\*: still filling its window, in which every GOP is met for the first time, so "
            "nearly as slow as without looking ahead; steady later. `headrace plan` predicts how "
            "fast.",
        )
    columns = {
        "": lambda row: row.kind,
        "open, new": lambda row: _seconds(row.repeats[0].scan_seconds),
        "open, known": lambda row: _seconds(row.repeats[0].open_seconds),
        "first batch": lambda row: _seconds(row.repeats[0].first_seconds),
        "frames/s": lambda row: f"{row.speed:,.0f}{_star(row)}",
        "amplification": lambda row: f"{row.amplification:.2f}{_star(row)}",
        "memory": lambda row: f"{row.repeats[0].memory_bytes / 2**20:,.0f} MiB",
        "open files": lambda row: f"{row.repeats[0].open_files:,}",
    }
    return rendered(result.rows, columns, *notes)


def _star(row: Row) -> str:
    return "" if row.repeats[0].is_filled else "*"


def _seconds(number: float | None) -> str:
    if number is None:
        return ""
    return f"{number:.2f} s" if number < 10 else f"{number:.0f} s"


BENCHMARK = Benchmark("scaling", __doc__, measure, scaling)

if __name__ == "__main__":
    BENCHMARK.main()
