"""How long do the import, the command, and opening a new and a known file take?

python -m benchmarks.bench_startup
"""

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from benchmarks.kit import Benchmark, rounds, tried
from benchmarks.markdown import machine, rendered, spread
from benchmarks.media import DEFAULT_ROOT
from benchmarks.media import paths as paths_of
from benchmarks.record import Repeat, Row, TimedResult, origin
from benchmarks.worker import ROOT, Ask, WorkerError, ask_worker
from headrace import IndexStore, open_decoder

COMMANDS: Mapping[str, Sequence[str]] = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import headrace": [sys.executable, "-c", "import headrace"],
    "headrace --help": [str(Path(sys.executable).with_name("headrace")), "--help"],
}
"""Commands; the first, Python itself, is a lower bound."""


def measure(
    *, media: Path = DEFAULT_ROOT, count: int = 8, repeats: int = 20
) -> Iterator[TimedResult]:
    """Time commands, then the opening of files.

    Args:
        media: folder of the videos
        count: videos of kind web to open
        repeats: repeats per command
    """
    *_, rows = rounds([Row(name=name) for name in COMMANDS], time_command, 1 + repeats)
    timed = [row.without_first() for row in rows] + time_opening(paths_of(media, "web", count))
    yield TimedResult(provenance=origin(repeats=repeats, files=count), rows=tuple(timed))


def time_command(row: Row) -> Row:
    """Return the row with the time of its command."""
    began = perf_counter()
    try:
        subprocess.run(COMMANDS[row.name], cwd=ROOT, capture_output=True, check=True)
    except FileNotFoundError as error:
        raise WorkerError("not installed") from error
    except subprocess.CalledProcessError as error:
        raise WorkerError(f"exit status {error.returncode}") from error
    return row.timed(Repeat(wall_seconds=perf_counter() - began))


def time_opening(files: Sequence[Path], ask: Ask = ask_worker) -> list[Row]:
    """Open each file in two processes: first it is scanned, then its index is stored."""
    with TemporaryDirectory() as store:
        paths = [str(path.resolve()) for path in files]
        request = {"case": "bench_startup", "paths": paths, "store": store}

        def take(row: Row) -> Row:
            return row.timed(*(Repeat(wall_seconds=seconds) for seconds in ask(request)["seconds"]))

        names = ("open a new file (scan)", "open a known file")
        return [tried(Row(name=name), take) for name in names]


def answer(*, paths: list[str], store: str) -> dict[str, Any]:
    """Time the opening of each file; a file with a stored index needs no scan."""
    indexes = IndexStore(Path(store))
    seconds = []
    for path in paths:
        began = perf_counter()
        decoder = open_decoder(path, index_store=indexes)
        seconds.append(perf_counter() - began)
        decoder.close()
    return {"seconds": seconds}


def startup(result: TimedResult) -> str:
    """Return a line per row, in timing order."""
    columns = {
        "operation": lambda row: f"`{row.name}`",
        "time": lambda row: f"{spread([1e3 * s for s in row.values('wall_seconds')], '.1f')} ms",
    }
    return rendered(result.rows, columns, f"Median (min–max). {machine(result)}")


BENCHMARK = Benchmark("startup", __doc__, measure, startup)

if __name__ == "__main__":
    BENCHMARK.main()
