"""How long until headrace is there: the import, the command, and a file it has seen before?

python -m benchmarks.bench_startup
"""

import argparse
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

from benchmarks import media
from benchmarks.record import RESULTS, ROOT, Repeat, Row, TimedResult, origin
from benchmarks.runner import Ask, WorkerError, ask_worker

COMMANDS: Mapping[str, Sequence[str]] = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import headrace": [sys.executable, "-c", "import headrace"],
    "headrace --help": [str(Path(sys.executable).with_name("headrace")), "--help"],
}
"""The first is the floor: Python itself."""


def main() -> None:
    """Time, keep, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--media", type=Path, default=media.DEFAULT_ROOT, help="their folder")
    parser.add_argument("--count", type=int, default=8, help="videos to open, of the kind web")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--out", type=Path, default=RESULTS / "startup.json")
    options = parser.parse_args()

    files = media.paths(options.media, "web", options.count)
    result = TimedResult(
        provenance=origin({"repeats": options.repeats, "files": options.count}),
        rows=(*time_commands(options.repeats), *time_opening(files)),
    )
    result.save(options.out)
    for row in result.rows:
        times = [1e3 * each.wall_seconds for each in row.repeats]
        print(f"{row.name}: {row.failure or f'{median(times):.1f} ms'}")
    print(options.out)


def time_commands(repeats: int) -> list[Row]:
    """Each command in a fresh process, interleaved, after one run of each that does not count."""
    rows = {name: Row(name=name) for name in COMMANDS}
    for turn in range(1 + repeats):
        for name, command in COMMANDS.items():
            began = perf_counter()
            try:
                subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
            except FileNotFoundError:
                rows[name] = Row(name=name, failure="not installed")
            except subprocess.CalledProcessError as error:
                rows[name] = Row(name=name, failure=f"exit status {error.returncode}")
            if turn and rows[name].failure is None:
                repeat = Repeat(wall_seconds=perf_counter() - began)
                found = (*rows[name].repeats, repeat)
                rows[name] = rows[name].model_copy(update={"repeats": found})
    return list(rows.values())


def time_opening(files: Sequence[Path], ask: Ask = ask_worker) -> list[Row]:
    """Open each file twice, in two processes: scanned, then known to the store of indexes."""
    paths = [str(path.resolve()) for path in files]
    rows = []
    with TemporaryDirectory() as store:
        asked = {"question": "open_files", "cores": None, "paths": paths, "store": store}
        for name in ("open a new file (scan)", "open a known file"):
            try:
                times = [Repeat(wall_seconds=each) for each in ask(asked)["seconds"]]
                rows.append(Row(name=name, repeats=tuple(times)))
            except WorkerError as error:
                rows.append(Row(name=name, failure=str(error)))
    return rows


if __name__ == "__main__":
    main()
