"""How long until headrace is there: the import, the command, and a file it has seen before?

python -m benchmarks.bench_startup
"""

import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from benchmarks import media
from benchmarks.kit import MEDIA, Benchmark, flag, rounds
from benchmarks.markdown import machine, spread, table
from benchmarks.record import Repeat, Row, TimedResult, origin
from benchmarks.worker import ROOT, Ask, WorkerError, ask_worker
from headrace import IndexStore, open_decoder

COMMANDS: Mapping[str, Sequence[str]] = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import headrace": [sys.executable, "-c", "import headrace"],
    "headrace --help": [str(Path(sys.executable).with_name("headrace")), "--help"],
}
"""The first is the floor: Python itself."""


def measure(options: Namespace) -> Iterator[TimedResult]:
    """Time commands, then opening files."""
    files = media.paths(options.media, "web", options.count)
    rows = [Row(name=name) for name in COMMANDS]
    [uncounted] = rounds(rows, timed_command, 1)
    rows = [row.failed(found.failure) for row, found in zip(rows, uncounted, strict=True)]
    *_, rows = rounds(rows, timed_command, options.repeats)
    yield TimedResult(
        provenance=origin({"repeats": options.repeats, "files": options.count}),
        rows=(*rows, *timed_opening(files)),
    )


def timed_command(row: Row) -> Repeat:
    """Run a command in a fresh process."""
    began = perf_counter()
    try:
        subprocess.run(COMMANDS[row.name], cwd=ROOT, capture_output=True, check=True)
    except FileNotFoundError as error:
        raise WorkerError("not installed") from error
    except subprocess.CalledProcessError as error:
        raise WorkerError(f"exit status {error.returncode}") from error
    return Repeat(wall_seconds=perf_counter() - began)


def timed_opening(files: Sequence[Path], ask: Ask = ask_worker) -> list[Row]:
    """Open each file twice, in two processes: scanned, then known to the store of indexes."""
    rows = []
    with TemporaryDirectory() as store:
        paths = [str(path.resolve()) for path in files]
        for row in (Row(name="open a new file (scan)"), Row(name="open a known file")):
            try:
                seconds = ask({"case": "bench_startup", "paths": paths, "store": store})["seconds"]
                rows.append(row.timed(*(Repeat(wall_seconds=each) for each in seconds)))
            except WorkerError as error:
                rows.append(row.failed(str(error)))
    return rows


def answer(*, paths: list[str], store: str) -> dict[str, Any]:
    """Open one after the other; a file that the store knows needs no scan."""
    indexes = IndexStore(Path(store))
    seconds = []
    for path in paths:
        began = perf_counter()
        decoder = open_decoder(path, store=indexes)
        seconds.append(perf_counter() - began)
        decoder.close()
    return {"seconds": seconds}


def startup(result: TimedResult) -> str:
    """One line per thing that was timed, in the order it was timed."""
    lines = [[f"`{row.name}`", row.failure or _milliseconds(row)] for row in result.rows]
    notes = f"Median (lowest–highest). {machine(result)}"
    return f"{table(['what', 'time'], lines)}\n\n{notes}"


def _milliseconds(row: Row) -> str:
    return f"{spread([1e3 * each.wall_seconds for each in row.repeats], '.1f')} ms"


BENCHMARK = Benchmark(
    name="startup",
    about=__doc__,
    flags={
        "media": MEDIA,
        "count": flag(8, "videos to open, of the kind web"),
        "repeats": flag(20),
    },
    measure=measure,
    lines=lambda result: (
        f"{row.name}: {row.failure or _milliseconds(row)}" for row in result.rows
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
