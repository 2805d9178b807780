"""Asks worker processes: equality is proved first, then repeats are timed turn by turn."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.equality import Equality, Pictures, compare, compare_picked
from benchmarks.record import ROOT, Repeat, Row

REFERENCE = "pyav_loop"
"""Its frames are right by definition: a linear decode of everything."""
SOURCE = ROOT / "src"
TIMEOUT_SECONDS = 1200


class WorkerError(Exception):
    """The worker process failed; the message is the last thing it said."""


@dataclass(frozen=True, kw_only=True)
class Entrant:
    """One of those that are held against each other, and what only it is asked with."""

    name: str
    asked: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Task:
    """What every entrant is asked for with the videos of one kind."""

    question: str
    """Module of `benchmarks.questions`."""
    kind: str
    paths: Sequence[Path]
    size: tuple[int, int]
    workers: int
    """Threads, and cores the process is bound to."""
    asked: Mapping[str, Any] = field(default_factory=dict)
    """What else."""

    def request(self, entrant: Mapping[str, Any], pictures: Path | None = None) -> dict[str, Any]:
        """Return what a worker is asked: for times, or for the pictures in a file."""
        return {
            "question": self.question,
            "cores": self.workers,
            "paths": [str(path.resolve()) for path in self.paths],
            "size": self.size,
            "workers": self.workers,
            "pictures": str(pictures) if pictures else None,
            **self.asked,
            **entrant,
        }


Ask = Callable[[Mapping[str, Any]], dict[str, Any]]
"""What `benchmarks.worker` is asked → its answer."""


def ask_worker(
    asked: Mapping[str, Any], *, source: Path = SOURCE, cache: Path | None = None
) -> dict[str, Any]:
    """Ask a fresh process, of headrace in the folder `source`.

    With a folder `cache`, that stands for the user's: no index is known that is not there.

    Raises:
        WorkerError: it failed, or gave no answer in time.
    """
    paths = [str(source), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
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


def prove(entrants: Sequence[Entrant], task: Task, ask: Ask = ask_worker) -> list[Row]:
    """One row per entrant without repeats: are its frames those of a linear decode?"""
    if not entrants:
        return []
    linear = replace(task, question="every_frame", asked={})
    with TemporaryDirectory() as folder:
        place = Path(folder) / "pictures.npz"
        ask(linear.request({"library": REFERENCE}, place))
        with np.load(place) as stored:
            reference = [stored[name] for name in stored]
        return [_prove(each, task, reference, place, ask) for each in entrants]


def rounds(
    rows: Sequence[Row], entrants: Sequence[Entrant], task: Task, count: int, ask: Ask = ask_worker
) -> Iterator[list[Row]]:
    """Yield all rows after each round, until every sound entrant was timed `count` times.

    The repeats are interleaved (A B C A B C ...), so that a slow minute of the machine hits all.
    Repeats that rows have already count as those of the first rounds.
    """
    current = list(rows)
    for earlier in range(count):
        current = [
            _repeat(row, entrant, task, ask)
            if row.is_sound and len(row.repeats) <= earlier
            else row
            for row, entrant in zip(current, entrants, strict=True)
        ]
        yield current


def _prove(
    entrant: Entrant, task: Task, reference: Sequence[Pictures], place: Path, ask: Ask
) -> Row:
    row = Row(name=entrant.name, kind=task.kind)
    try:
        answer = ask(task.request(entrant.asked, place))
    except WorkerError as error:
        return _failed(row, str(error))
    with np.load(place) as stored:
        found = _compare(reference, {name: stored[name] for name in stored})
    right = "equal" if found.holds else f"{found.missing} missing and {found.wrong} wrong"
    print(f"{task.kind} {entrant.name}: {found.frames} frames, {right}", flush=True)
    return row.model_copy(update={"equality": found, "versions": answer["versions"]})


def _compare(reference: Sequence[Pictures], stored: Mapping[str, Any]) -> Equality:
    """All pictures of each file, or those that were requested."""
    if "requests" in stored:
        return compare_picked(reference, stored["requests"], stored["pictures"])
    return compare(reference, list(stored.values()))


def _repeat(row: Row, entrant: Entrant, task: Task, ask: Ask) -> Row:
    """The row with one more repeat, or with the reason why there is none."""
    try:
        repeat = Repeat(**ask(task.request(entrant.asked)))
    except WorkerError as error:
        return _failed(row, str(error))
    wanted = row.equality.frames if row.equality and task.question == "every_frame" else None
    if wanted is not None and repeat.frames != wanted:
        return _failed(row, f"{repeat.frames} of {wanted} frames when timed")
    print(
        f"{row.kind} {row.name}: {repeat.frames_per_second:.1f} frames/s,"
        f" others used {repeat.others_share or 0:.0%} of the machine",
        flush=True,
    )
    return row.model_copy(update={"repeats": (*row.repeats, repeat)})


def _failed(row: Row, reason: str) -> Row:
    print(f"{row.kind} {row.name}: {reason}", flush=True)
    return row.model_copy(update={"failure": reason})
