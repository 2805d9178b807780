"""Both ends of the protocol of worker processes: JSON on stdin, answered by one line of JSON.

{"case": "cases:every_frame", "cores": 2, "library": "decord", "paths": [...], ...}

A case is a function of a module of `benchmarks`, by default its `answer`; it says what else it is
asked with. With `cores` the process is bound to as many.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.resources import keep_to_cores

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
TIMEOUT_SECONDS = 1200

Ask = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Request → answer."""


class WorkerError(Exception):
    """The worker process failed; the message is the last line it printed."""


def ask_worker(
    asked: Mapping[str, Any], *, source: Path = SOURCE, cache: Path | None = None
) -> dict[str, Any]:
    """Ask a fresh process, of headrace in the folder `source`.

    A folder `cache` stands for the user's: no index is known that is not there.

    Raises:
        WorkerError: it failed, or gave no answer in time.
    """
    environment = {**os.environ, "PYTHONPATH": python_path(source)}
    if cache is not None:
        environment["XDG_CACHE_HOME"] = str(cache)
    try:
        run = subprocess.run(
            [sys.executable, "-m", "benchmarks.worker"],
            input=json.dumps(asked),
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


def answer_here(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Answer in this process, bound to no cores."""
    words = {name: value for name, value in asked.items() if name not in ("case", "cores")}
    module, _, function = asked["case"].partition(":")
    case = getattr(import_module(f"benchmarks.{module}"), function or "answer")
    answer: dict[str, Any] = case(**words)
    return answer


def python_path(source: Path = SOURCE) -> str:
    """Return PYTHONPATH of a process that imports headrace of `source`, and the benchmarks."""
    paths = [str(source), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.pathsep.join(paths)


def main() -> None:
    """Read a request, keep to as many cores as it says, answer, end."""
    asked = json.load(sys.stdin)
    keep_to_cores(asked.get("cores"))
    print(json.dumps(answer_here(asked)), flush=True)


if __name__ == "__main__":
    main()
