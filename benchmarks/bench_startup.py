"""How long until headrace is there: the import, the command, and a file it has seen before?

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
"""Commands; the first, Python itself, is the lower bound."""


def measure(
    *, media: Path = DEFAULT_ROOT, count: int = 8, repeats: int = 20
) -> Iterator[TimedResult]:
    """Time commands, then opening files.

    Args:
        media: their folder
        count: videos to open, of the kind web
        repeats: of each, in turn
    """
    *_, rows = rounds([Row(name=name) for name in COMMANDS], time_command, 1 + repeats)
    timed = [row.without_first() for row in rows] + time_opening(paths_of(media, "web", count))
    yield TimedResult(provenance=origin(repeats=repeats, files=count), rows=tuple(timed))


def time_command(row: Row) -> Row:
    """Run a command in a fresh process."""
    began = perf_counter()
    try:
        subprocess.run(COMMANDS[row.name], cwd=ROOT, capture_output=True, check=True)
    except FileNotFoundError as error:
        raise WorkerError("not installed") from error
    except subprocess.CalledProcessError as error:
        raise WorkerError(f"exit status {error.returncode}") from error
    return row.timed(Repeat(wall_seconds=perf_counter() - began))


def time_opening(files: Sequence[Path], ask: Ask = ask_worker) -> list[Row]:
    """Open each file twice, in two processes: scanned, then known to the store of indexes."""
    with TemporaryDirectory() as store:
        paths = [str(path.resolve()) for path in files]
        asked = {"case": "bench_startup", "paths": paths, "store": store}

        def take(row: Row) -> Row:
            return row.timed(*(Repeat(wall_seconds=each) for each in ask(asked)["seconds"]))

        names = ("open a new file (scan)", "open a known file")
        return [tried(Row(name=name), take) for name in names]


def answer(*, paths: list[str], store: str) -> dict[str, Any]:
    """Open files one after another; a file with a stored index needs no scan."""
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
        "what": lambda row: f"`{row.name}`",
        "time": lambda row: f"{spread([1e3 * s for s in row.values('wall_seconds')], '.1f')} ms",
    }
    return rendered(result.rows, columns, f"Median (min–max). {machine(result)}")


BENCHMARK = Benchmark("startup", __doc__, measure, startup)

if __name__ == "__main__":
    BENCHMARK.main()
