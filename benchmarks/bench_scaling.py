"""What do 10, 100, 1,000 and 10,000 files cost: until they are open, for the first batch, and then?

python -m benchmarks.bench_scaling --sizes 10 100 --seconds 5    # a first look
python -m benchmarks.bench_scaling                               # the figures of the docs

The files are links to the same few videos; each link is a file of its own to headrace. A scan takes
some 10 ms a file, so that only sets of up to 1,000 are also opened as new ones. About 7 minutes.
"""

import os
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence, Sized
from itertools import chain, cycle, islice, repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import psutil

from benchmarks import media
from benchmarks.kit import MEDIA, SIZE, WORKERS, Benchmark, flag
from benchmarks.markdown import failed, machine, others, repeats, size, table
from benchmarks.record import Repeat, Row, TimedResult, origin
from benchmarks.resources import peak_rss_bytes, rss_bytes, steady
from benchmarks.worker import Ask, WorkerError, ask_worker
from headrace import FrameLoader, IndexStore, Source, open_index


def measure(options: Namespace) -> Iterator[TimedResult]:
    """Measure one size after the other."""
    files = media.paths(options.media, "web", options.count)
    task = {
        "size": SIZE,
        "batch_size": options.batch_size,
        "workers": options.workers,
        "memory_budget": options.memory,
        "warm_up_seconds": options.warm_up,
        "seconds": options.seconds,
    }
    parameters = {**task, "scan_at_most": options.scan_at_most, "videos": options.count}
    result = TimedResult(provenance=origin(parameters), media={"recipe": media.recipe()})
    with TemporaryDirectory() as folder:
        place = Path(folder)
        links = link_files(files, place / "videos", max(options.sizes))
        know(files, links, IndexStore(place / "known"))
        for count in options.sizes:
            row = measured(links[:count], place, task, scans=count <= options.scan_at_most)
            result = result.model_copy(update={"rows": (*result.rows, row)})
            yield result


def link_files(files: Sequence[Path], folder: Path, count: int) -> list[Path]:
    """Make `count` links in `folder`, to one file after the other and round again."""
    folder.mkdir(parents=True)
    links = [folder / f"{number:06}.mp4" for number in range(count)]
    for path, file in zip(links, cycle(files), strict=False):
        link(file.resolve(), path)
    return links


def know(files: Sequence[Path], links: Sequence[Path], store: IndexStore) -> None:
    """Make the store know all links by scanning `files` only: equal files have equal entries."""
    for file in files:
        open_index(file.resolve(), store)
    for path, file in zip(links, islice(cycle(files), len(links)), strict=True):
        link(store.entry(Source(file.resolve())), store.entry(Source(path)))


def link(file: Path, path: Path) -> None:
    """Make a hard link, or a symbolic one where they lie on different file systems."""
    try:
        os.link(file, path)
    except OSError:
        path.symlink_to(file)


def measured(
    links: Sequence[Path],
    place: Path,
    task: Mapping[str, Any],
    *,
    scans: bool,
    ask: Ask = ask_worker,
) -> Row:
    """Ask a process for the set as new files, if it `scans`, and another as known ones."""
    row = Row(name="headrace", kind=f"{len(links):,} files")
    paths = [str(link) for link in links]
    asked = {**task, "case": "bench_scaling", "cores": task["workers"], "paths": paths}
    scan_seconds = None
    try:
        if scans:
            unknown = str(place / f"unknown-{len(links)}")
            scan_seconds = ask({**asked, "store": unknown, "seconds": None})["open_seconds"]
        known = ask({**asked, "store": str(place / "known")})
    except WorkerError as error:
        return row.failed(str(error))
    return row.timed(Repeat(scan_seconds=scan_seconds, **known))


def answer(
    *,
    paths: list[str],
    store: str,
    size: Sequence[int],
    warm_up_seconds: float,
    seconds: float | None,
    **options: Any,
) -> dict[str, Any]:
    """Open a loader; if `seconds` are given, time its first batch and those after the warm-up."""
    process, rss_before = psutil.Process(), rss_bytes()
    files_before, open_files = process.num_fds(), 0
    began = perf_counter()
    with FrameLoader(
        paths, size=(size[0], size[1]), store=IndexStore(Path(store)), **options
    ) as loader:
        found: dict[str, Any] = {"open_seconds": perf_counter() - began}
        if seconds is None:
            return found

        def batches() -> Iterator[Sized]:
            nonlocal open_files
            for batch in chain.from_iterable(repeat(loader)):
                open_files = max(open_files, process.num_fds())
                yield batch

        def count() -> dict[str, int]:
            cost = loader.statistics
            return {"decoded": cost.frames_decoded, "opens": cost.opens}

        found |= steady(batches(), loader.lookahead, warm_up_seconds, seconds, count)
        found["open_files"] = open_files - files_before
        found["memory_bytes"] = peak_rss_bytes() - rss_before
    return found


_HEADER = (
    *("", "open, new", "open, known", "first batch", "frames/s"),
    *("amplification", "memory", "open files"),
)


def scaling(result: TimedResult) -> str:
    """One line per number of files."""
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
    if not all(each.is_filled for each in repeats(result.rows)):
        notes.insert(
            1,
            "\\*: still filling its window, in which every GOP is met for the first time, so "
            "nearly as slow as without looking ahead; steady later. `headrace plan` predicts how "
            "fast.",
        )
    return f"{table(_HEADER, map(_line, result.rows))}\n\n" + "\n".join(notes)


def _line(row: Row) -> tuple[str, ...]:
    if row.failure:
        return (row.kind, failed(row), *[""] * (len(_HEADER) - 2))
    [found] = row.repeats
    filling = "" if found.is_filled else "*"
    return (
        row.kind,
        *map(_seconds, (found.scan_seconds, found.open_seconds, found.first_seconds)),
        f"{found.frames_per_second:,.0f}{filling}",
        f"{row.amplification:.2f}{filling}",
        f"{(found.memory_bytes or 0) / 2**20:,.0f} MiB",
        f"{found.open_files:,}",
    )


def _seconds(number: float | None) -> str:
    if number is None:
        return ""
    return f"{number:.2f} s" if number < 10 else f"{number:.0f} s"


BENCHMARK = Benchmark(
    name="scaling",
    about=__doc__,
    flags={
        "media": MEDIA,
        "count": flag(40, "videos of kind web to link to"),
        "sizes": flag([10, 100, 1_000, 10_000]),
        "scan_at_most": flag(1_000, "new files in a set"),
        "seconds": flag(20.0, "that a size is timed for"),
        "warm_up": flag(60.0, "seconds before, at most"),
        "batch_size": flag(128),
        "memory": flag("1GiB"),
        "workers": WORKERS,
    },
    measure=measure,
    lines=lambda result: scaling(result).splitlines(),
)

if __name__ == "__main__":
    BENCHMARK.main()
