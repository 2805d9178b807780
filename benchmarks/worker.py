"""Both ends of the worker protocol: a JSON request on stdin, a line of JSON as the answer.

{"case": "cases:every_frame", "cores": 2, "library": "decord", "paths": [...], ...}

`case` names a module of `benchmarks` and a function, by default `answer`; the other fields are its
arguments. `cores` binds the process to this number of cores.
"""

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from pkgutil import resolve_name
from time import perf_counter
from typing import TYPE_CHECKING, Any

import psutil

from headrace.profiling.resource_usage import cpu_seconds, machine_cpu_seconds, peak_memory_bytes

if TYPE_CHECKING:
    from benchmarks.adapters import Delivery

_MAPS = Path("/proc/self/maps")


class Meter:
    """Wall time, and CPU time of this process and of all others, since its creation."""

    def __init__(self) -> None:
        self._cpu, self._machine = cpu_seconds(), machine_cpu_seconds()
        self._began = perf_counter()

    @property
    def wall_seconds(self) -> float:
        """Wall time so far."""
        return perf_counter() - self._began

    def read(self) -> dict[str, float]:
        """Return the time fields of a `Repeat`."""
        wall, own = self.wall_seconds, cpu_seconds() - self._cpu
        others = max(0.0, machine_cpu_seconds() - self._machine - own)
        return {"wall_seconds": wall, "cpu_seconds": own, "others_cpu_seconds": others}


def steady(
    delivery: "Delivery",
    seconds: float,
    *,
    warm_up_seconds: float = math.inf,
    least_frames: Callable[[], int] = int,
) -> dict[str, Any]:
    """Time batches in steady state; return fields of a `Repeat`.

    The warm-up ends after as many frames as the lookahead, or at its time limit. The timing lasts
    at least `seconds` and `least_frames`.
    """
    batches, lookahead, count = delivery
    warming = Meter()
    warm_up_frames = len(next(batches))
    first_seconds = warming.wall_seconds
    while warm_up_frames < lookahead() and warming.wall_seconds < warm_up_seconds:
        warm_up_frames += len(next(batches))
    frames, before, meter = 0, count(), Meter()
    while meter.wall_seconds < seconds or frames < least_frames():
        frames += len(next(batches))
    times, after = meter.read(), count()
    warm_up = {"first_seconds": first_seconds, "warm_up_frames": warm_up_frames}
    counts = {name: after[name] - before[name] for name in before}
    return {**times, **warm_up, "lookahead": lookahead(), "frames": frames, **counts}


def rss_bytes() -> int:
    """Return the resident memory of this process."""
    return int(psutil.Process().memory_info().rss)


def peak_rss_bytes() -> int:
    """Return the peak memory of this process; if unknown, its current memory."""
    return peak_memory_bytes() or rss_bytes()


def versions(packages: Sequence[str]) -> dict[str, str]:
    """Return the versions of the packages, and of the loaded FFmpeg."""
    installed = {name: metadata.version(name) for name in packages}
    if _MAPS.is_file():
        loaded = set(re.findall(r"libavcodec[-\w]*\.so\.([\d.]+)", _MAPS.read_text()))
        installed["libavcodec"] = ", ".join(sorted(loaded))
    return installed


ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
TIMEOUT_SECONDS = 3600

Ask = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Request → answer."""


class WorkerError(Exception):
    """The worker process failed; the message is its last output line."""


def ask_worker(
    request: Mapping[str, Any], *, source: Path = SOURCE, cache: Path | None = None
) -> dict[str, Any]:
    """Send a request to a fresh process that imports headrace from `source`.

    A folder `cache` replaces the user's cache folder, so only its indexes are known.

    Raises:
        WorkerError: the process failed, or did not answer in time.
    """
    environment = {**os.environ, "PYTHONPATH": python_path(source)}
    if cache is not None:
        environment["XDG_CACHE_HOME"] = str(cache)
    try:
        run = subprocess.run(
            [sys.executable, "-m", "benchmarks.worker"],
            input=json.dumps(request),
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise WorkerError(f"no answer within {TIMEOUT_SECONDS} seconds") from error
    if run.returncode:
        last_line = (run.stderr.strip() or f"exit status {run.returncode}").splitlines()[-1]
        raise WorkerError(last_line)
    answer: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return answer


def answer_here(request: Mapping[str, Any]) -> dict[str, Any]:
    """Answer in this process, without core binding."""
    arguments = {name: value for name, value in request.items() if name not in ("case", "cores")}
    module, _, function = request["case"].partition(":")
    case = resolve_name(f"benchmarks.{module}:{function or 'answer'}")
    answer: dict[str, Any] = case(**arguments)
    return answer


def headrace_command(*words: object) -> list[str]:
    """Return the command line of `headrace` with these arguments."""
    return [sys.executable, "-m", "headrace", *map(str, words)]


def python_path(source: Path = SOURCE) -> str:
    """Return the PYTHONPATH for headrace from `source`, and for the benchmarks."""
    paths = [str(source), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.pathsep.join(paths)


def main() -> None:
    """Read a request, bind this process and its children to the cores, and print the answer."""
    request = json.load(sys.stdin)
    if (count := request.get("cores")) is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])
    print(json.dumps(answer_here(request)), flush=True)


if __name__ == "__main__":
    main()
