"""What do 10, 100, 1,000 and 10,000 files cost: until they are open, for the first batch, and then?

python -m benchmarks.bench_scaling --sizes 10 100 --seconds 5    # a first look
python -m benchmarks.bench_scaling                               # the figures of the docs

The files are links to the same few videos; each link is a file of its own to headrace. A scan takes
some 10 ms a file, so that only sets of up to 1,000 are also opened as new ones. About 7 minutes.
"""

import argparse
import os
from collections.abc import Mapping, Sequence
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import media
from benchmarks.record import RESULTS, Repeat, Row, TimedResult, origin
from benchmarks.runner import Ask, WorkerError, ask_worker
from headrace import IndexStore, Source, open_index


def main(words: Sequence[str] | None = None, ask: Ask = ask_worker) -> None:
    """Measure one size after the other, keep after each, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--media", type=Path, default=media.DEFAULT_ROOT, help="their folder")
    parser.add_argument("--count", type=int, default=40, help="videos of kind web to link to")
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 100, 1_000, 10_000])
    parser.add_argument("--scan-at-most", type=int, default=1_000, help="new files in a set")
    parser.add_argument("--seconds", type=float, default=20, help="that a size is timed for")
    parser.add_argument("--warm-up", type=float, default=60, help="seconds before, at most")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--memory", default="1GiB")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="threads and cores")
    parser.add_argument("--out", type=Path, default=RESULTS / "scaling.json")
    options = parser.parse_args(words)
    files = media.paths(options.media, "web", options.count)
    task = {
        "size": (256, 256),
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
        for size in options.sizes:
            scans = size <= options.scan_at_most
            row = measure(links[:size], place, task, scans=scans, ask=ask)
            result = result.model_copy(update={"rows": (*result.rows, row)})
            result.save(options.out)
            print(row.model_dump_json(exclude_none=True), flush=True)
    print(options.out)


def link_files(files: Sequence[Path], folder: Path, count: int) -> list[Path]:
    """Make `count` links in `folder`, to one file after the other and round again."""
    folder.mkdir()
    links = [folder / f"{number:06}.mp4" for number in range(count)]
    for link, file in zip(links, cycle(files), strict=False):
        _link(file.resolve(), link)
    return links


def know(files: Sequence[Path], links: Sequence[Path], store: IndexStore) -> None:
    """Make the store know all links by scanning `files` only: equal files have equal entries."""
    for file in files:
        open_index(file.resolve(), store)
    for link, file in zip(links, islice(cycle(files), len(links)), strict=True):
        _link(store.entry(Source(file.resolve())), store.entry(Source(link)))


def measure(
    links: Sequence[Path], place: Path, task: Mapping[str, Any], *, scans: bool, ask: Ask
) -> Row:
    """Ask a process for the set as new files, if it `scans`, and another as known ones."""
    row = Row(name="headrace", kind=f"{len(links):,} files")
    asked = {
        **task,
        "question": "many_files",
        "cores": task["workers"],
        "paths": [str(link) for link in links],
    }
    scan_seconds = None
    try:
        if scans:
            unknown = str(place / f"unknown-{len(links)}")
            scan_seconds = ask({**asked, "store": unknown, "seconds": None})["open_seconds"]
        known = ask({**asked, "store": str(place / "known")})
    except WorkerError as error:
        return row.model_copy(update={"failure": str(error)})
    return row.model_copy(update={"repeats": (Repeat(scan_seconds=scan_seconds, **known),)})


def _link(file: Path, link: Path) -> None:
    """A hard link, or a symbolic one where they lie on different file systems."""
    try:
        os.link(file, link)
    except OSError:
        link.symlink_to(file)


if __name__ == "__main__":
    main()
