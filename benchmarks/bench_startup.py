"""How long until headrace is there: the import, the command, and a file it has seen before?

python -m benchmarks.bench_startup
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from benchmarks import media
from benchmarks.record import RESULTS, ROOT, Spread, StartupResult, Timing, conditions

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
    result = StartupResult(
        conditions=conditions({"repeats": options.repeats, "files": options.count}, {}),
        timings=(*time_commands(options.repeats), *time_opening(files)),
    )
    result.save(options.out)
    for timing in result.timings:
        known = timing.failure or f"{1e3 * Spread.of(timing.seconds).median:.1f} ms"
        print(f"{timing.name}: {known}")
    print(options.out)


def time_commands(repeats: int) -> list[Timing]:
    """Each command in a fresh process, interleaved, after one run of each that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    failures: dict[str, str] = {}
    for _ in range(1 + repeats):
        for name, command in COMMANDS.items():
            began = perf_counter()
            try:
                subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
            except FileNotFoundError:
                failures[name] = "not installed"
            except subprocess.CalledProcessError as err:
                failures[name] = f"exit status {err.returncode}"
            seconds[name].append(perf_counter() - began)
    return [
        Timing(name=name, failure=failures[name])
        if name in failures
        else Timing(name=name, seconds=tuple(seconds[name][1:]))
        for name in COMMANDS
    ]


def time_opening(files: Sequence[Path]) -> list[Timing]:
    """Open each file twice, in two processes: scanned, then known to the store of indexes."""
    with TemporaryDirectory() as store:
        return [
            _time_opening(name, store, files)
            for name in ("open a new file (scan)", "open a known file")
        ]


def _time_opening(name: str, store: str, files: Sequence[Path]) -> Timing:
    paths = [str(path.resolve()) for path in files]
    command = [sys.executable, "-m", "benchmarks.opener", store, *paths]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if run.returncode:
        return Timing(name=name, failure=run.stderr.strip().splitlines()[-1])
    return Timing(name=name, seconds=tuple(json.loads(run.stdout)))


if __name__ == "__main__":
    main()
