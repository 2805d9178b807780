"""Runs ways to random frames side by side: each in its own process, equality first, interleaved."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.equality import Equality, Pictures, compare_picked
from benchmarks.record import ROOT, RandomRepeat, RandomRow
from benchmarks.runner import REFERENCE, LibraryError, Workload, ask_worker

TIMEOUT_SECONDS = 900


@dataclass(frozen=True, kw_only=True)
class RandomTask:
    """What every way is asked for, with the videos of one kind."""

    kind: str
    paths: Sequence[Path]
    size: tuple[int, int]
    workers: int
    batch_size: int
    clip: tuple[int, int] | None
    """(frames, stride); None for single frames."""
    seconds: float
    """That a repeat is timed for at least, after the warm-up."""


@dataclass(frozen=True, kw_only=True)
class Entrant:
    """A way, and what it may use."""

    name: str
    way: str
    """Module of `benchmarks.random_access`."""
    memory_budget: str = "1GiB"
    hold: str = "rgb"


def prove(entrants: Sequence[Entrant], task: RandomTask) -> list[RandomRow]:
    """One row per entrant without repeats: are its first frames those of a linear decode?"""
    if not entrants:
        return []
    with TemporaryDirectory() as folder:
        place = Path(folder) / "pictures.npz"
        linear = Workload(kind=task.kind, paths=task.paths, size=task.size, workers=task.workers)
        ask_worker(REFERENCE, linear, place)
        with np.load(place) as stored:
            reference = [stored[name] for name in stored.files]
        return [_prove(each, task, reference, place) for each in entrants]


def rounds(
    rows: Sequence[RandomRow], entrants: Sequence[Entrant], task: RandomTask, count: int
) -> Iterator[list[RandomRow]]:
    """Yield all rows after each round, until every sound entrant was timed `count` times.

    Repeats that rows have already count as those of the first rounds.
    """
    current = list(rows)
    for earlier in range(count):
        current = [
            _repeat(row, entrant, task) if row.is_sound and len(row.repeats) <= earlier else row
            for row, entrant in zip(current, entrants, strict=True)
        ]
        yield current


def _prove(
    entrant: Entrant, task: RandomTask, reference: Sequence[Pictures], place: Path
) -> RandomRow:
    row = RandomRow(library=entrant.name, kind=task.kind)
    try:
        answer = _ask(entrant, replace(task, seconds=0), place)
    except LibraryError as error:
        print(f"{task.kind} {entrant.name}: {error}", flush=True)
        return row.model_copy(update={"failure": str(error)})
    row = row.model_copy(update={"versions": answer["versions"]})
    with np.load(place) as stored:
        arrays = [stored[name] for name in stored.files]
    found = _compare(arrays, reference)
    print(f"{task.kind} {entrant.name}: {found}", flush=True)
    return row.model_copy(update={"equality": found})


def _compare(arrays: Sequence[NDArray[Any]], reference: Sequence[Pictures]) -> Equality:
    return compare_picked(reference, np.concatenate(arrays[1::2]), np.concatenate(arrays[::2]))


def _repeat(row: RandomRow, entrant: Entrant, task: RandomTask) -> RandomRow:
    try:
        answer = _ask(entrant, task, None)
    except LibraryError as error:
        print(f"{task.kind} {entrant.name}: {error}", flush=True)
        return row.model_copy(update={"failure": str(error)})
    del answer["versions"]
    repeat = RandomRepeat(**answer)
    print(
        f"{row.kind} {row.library}: {repeat.frames_per_second:.1f} frames/s,"
        f" others used {repeat.others_share:.0%} of the machine",
        flush=True,
    )
    return row.model_copy(update={"repeats": (*row.repeats, repeat)})


def _ask(entrant: Entrant, task: RandomTask, pictures: Path | None) -> dict[str, Any]:
    request = {
        "way": entrant.way,
        "paths": [str(path.resolve()) for path in task.paths],
        "size": task.size,
        "workers": task.workers,
        "batch_size": task.batch_size,
        "clip": task.clip,
        "memory_budget": entrant.memory_budget,
        "hold": entrant.hold,
        "seconds": task.seconds,
        "pictures": str(pictures) if pictures else None,
    }
    try:
        run = subprocess.run(
            [sys.executable, "-m", "benchmarks.random_worker"],
            input=json.dumps(request),
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise LibraryError(f"no answer within {TIMEOUT_SECONDS} seconds") from error
    if run.returncode:
        last_line = (run.stderr.strip() or f"exit status {run.returncode}").splitlines()[-1]
        raise LibraryError(last_line)
    answer: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return answer
