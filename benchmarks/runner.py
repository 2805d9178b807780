"""Runs libraries side by side: each in its own process, equality first, repeats interleaved."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.equality import Equality, Pictures, compare
from benchmarks.record import ROOT, Repeat, Row

REFERENCE = "pyav_loop"
"""Its frames are right by definition: a linear decode of everything."""


class LibraryError(Exception):
    """The library's process failed; the message is the last thing it said."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What every library is asked to do with the videos of one kind."""

    kind: str
    paths: Sequence[Path]
    size: tuple[int, int]
    workers: int
    """Threads, and cores the process is bound to."""
    timeout_seconds: float = 1200


Ask = Callable[[str, Workload, Path | None], dict[str, Any]]
"""Library, workload, file for its thumbnails or None to time it → the worker's answer."""


def ask_worker(library: str, workload: Workload, thumbnails: Path | None) -> dict[str, Any]:
    """Run `benchmarks.worker` in a fresh process; LibraryError when it fails or hangs."""
    request = {
        "library": library,
        "paths": [str(path.resolve()) for path in workload.paths],
        "size": workload.size,
        "workers": workload.workers,
        "thumbnails": str(thumbnails) if thumbnails else None,
    }
    try:
        run = subprocess.run(
            [sys.executable, "-m", "benchmarks.worker"],
            input=json.dumps(request),
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=workload.timeout_seconds,
        )
    except subprocess.TimeoutExpired as err:
        raise LibraryError(f"no answer within {workload.timeout_seconds:.0f} seconds") from err
    if run.returncode:
        last_line = (run.stderr.strip() or f"exit status {run.returncode}").splitlines()[-1]
        raise LibraryError(last_line)
    answer: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return answer


def run(
    libraries: Sequence[str], workload: Workload, repeats: int, ask: Ask = ask_worker
) -> list[Row]:
    """One row per library. Only a library whose frames are right is timed.

    The repeats are interleaved (A B C A B C ...), so that a slow minute of the machine hits all.
    """
    rows = prove(libraries, workload, ask)
    for _ in range(repeats):
        rows = [_repeat(row, workload, ask) if row.is_sound else row for row in rows]
    return rows


def prove(libraries: Sequence[str], workload: Workload, ask: Ask = ask_worker) -> list[Row]:
    """One row per library without repeats: are its frames those of the reference?"""
    with TemporaryDirectory() as folder:
        place = Path(folder) / "pictures.npz"
        ask(REFERENCE, workload, place)
        reference = _pictures(place)
        return [_prove(library, workload, reference, place, ask) for library in libraries]


def _prove(
    library: str, workload: Workload, reference: Sequence[Pictures], place: Path, ask: Ask
) -> Row:
    row = Row(library=library, kind=workload.kind)
    try:
        answer = ask(library, workload, place)
    except LibraryError as err:
        return _failed(row, str(err))
    equality = compare(reference, _pictures(place))
    print(f"{workload.kind} {library}: {_verdict(equality)}", flush=True)
    return row.model_copy(update={"equality": equality, "versions": answer["versions"]})


def _repeat(row: Row, workload: Workload, ask: Ask) -> Row:
    """The row with one more repeat, or with the reason why there is none."""
    try:
        repeat = Repeat(**ask(row.library, workload, None))
    except LibraryError as err:
        return _failed(row, str(err))
    if row.equality and repeat.frames != row.equality.frames:
        return _failed(row, f"{repeat.frames} of {row.equality.frames} frames when timed")
    print(
        f"{row.kind} {row.library}: {repeat.frames_per_second:.0f} frames/s,"
        f" others used {repeat.others_share:.0%} of the machine",
        flush=True,
    )
    return row.model_copy(update={"repeats": (*row.repeats, repeat)})


def _failed(row: Row, reason: str) -> Row:
    print(f"{row.kind} {row.library}: {reason}", flush=True)
    return row.model_copy(update={"failure": reason})


def _verdict(equality: Equality) -> str:
    if equality.holds:
        return f"{equality.frames} frames equal"
    return f"{equality.missing} missing and {equality.wrong} wrong of {equality.frames} frames"


def _pictures(path: Path) -> list[Pictures]:
    with np.load(path) as stored:
        return [stored[name] for name in stored]
