"""Benchmarks as values, and their shared steps: compare frames, then time interleaved repeats."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import signature
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import numpy as np

from benchmarks.command_line import parse
from benchmarks.equality import Equality, compare, compare_picked
from benchmarks.media import DEFAULT_ROOT, KINDS, describe, paths, recipe
from benchmarks.record import RESULTS, AnyTimed, AnyTried, Repeat, Row, TimedResult, origin
from benchmarks.worker import Ask, WorkerError, ask_worker

REFERENCE = "pyav_loop"
"""Entrant with the reference frames: a linear decode of whole files."""
SIZE = (256, 256)
CORES = os.cpu_count() or 1
Entrants = Mapping[str, Mapping[str, Any]]
"""Entrant name → parameters of its request."""


def begin(**parameters: object) -> dict[str, Any]:
    """Return the provenance fields of a result."""
    return {"provenance": origin(**parameters), "media": {"recipe": recipe()}}


@dataclass(frozen=True)
class Benchmark:
    """One question, its measurement and its table."""

    name: str
    """Name of its result."""
    about: str
    """Module docstring, shown by `--help`; its first line is the question."""
    measure: Callable[..., Iterable[Any]]
    """Yields the result after each step; each is saved at once. Its parameters are the command-line
    options; `out` is the path of the result."""
    text: Callable[[Any], str]
    """Result → printed text."""

    @property
    def result(self) -> type[Any]:
        """Return the type of the results of `measure`."""
        measure = self.measure.func if isinstance(self.measure, partial) else self.measure
        result: type[Any] = get_args(signature(measure).return_annotation)[0]
        return result

    def main(self, words: Sequence[str] | None = None) -> None:
        """Measure, save, print."""
        arguments = parse(self.measure, self.about, words, out=RESULTS / f"{self.name}.json")
        takes_out = "out" in signature(self.measure).parameters
        out, result = arguments["out"] if takes_out else arguments.pop("out"), None
        for result in self.measure(**arguments):
            result.save(out)
        print(self.text(result), out, sep="\n")


def task_of(case: str, paths: Sequence[Path], workers: int, **parameters: Any) -> dict[str, Any]:
    """Return a request for a worker with videos; see `benchmarks.worker`.

    The worker returns times. If the request has a path in `pictures`, it writes thumbnails of its
    frames to that file instead.

    Args:
        case: Function of the worker, `module:function`.
        paths: Videos.
        workers: Threads, and cores the process is bound to.
        parameters: Further parameters of the function.
    """
    names = [str(path.absolute()) for path in paths]  # not resolved: each link is its own file
    return {"case": case, "cores": workers, "workers": workers, "paths": names, **parameters}


def prove(
    entrants: Entrants,
    task: Mapping[str, Any],
    kind: str = "",
    ask: Ask = ask_worker,
    reference: Mapping[str, Any] | None = None,
) -> list[Row]:
    """Return one row per entrant with the comparison of its frames, without repeats.

    Frames are compared with those of the request `reference`, by default a linear decode.
    """
    if not entrants:
        return []
    common = task if reference else {name: task[name] for name in _LINEAR_TASK}
    with TemporaryDirectory() as folder:
        pictures = str(Path(folder) / "pictures.npz")
        ask({**common, **(reference or _LINEAR), "pictures": pictures})
        with np.load(pictures) as stored:
            expected = dict(stored)

        def compared(row: Row) -> Row:
            answer = ask({**task, **entrants[row.name], "pictures": pictures})
            with np.load(pictures) as stored:
                equality = _compare(expected, stored)
            return row.model_copy(update={"equality": equality, "versions": answer["versions"]})

        return [tried(Row(name=name, kind=kind), compared) for name in entrants]


def rounds(
    rows: Sequence[AnyTimed], take: Callable[[AnyTimed], AnyTimed], count: int
) -> Iterator[list[AnyTimed]]:
    """Yield all rows after each round, until each sound row has `count` repeats by `take`.

    Repeats are interleaved (A B C A B C ...), so that a slow minute affects all rows. Existing
    repeats count for the first rounds.
    """
    current = list(rows)
    for number in range(count):
        current = [
            tried(row, take) if row.is_sound and row.count <= number else row for row in current
        ]
        yield current


def tried(row: AnyTried, step: Callable[[AnyTried], AnyTried]) -> AnyTried:
    """Return the row from `step`, or the row with the reason of its failure."""
    try:
        result = step(row)
    except WorkerError as error:
        result = row.failed(str(error))
    print(f"{row.words}: {result.failure or result.progress}", flush=True)
    return result


def timed_by(
    entrants: Entrants, task: Mapping[str, Any], ask: Ask = ask_worker
) -> Callable[[Row], Row]:
    """Return a function that adds a repeat to a row; it fails an entrant that loses frames."""

    def take(row: Row) -> Row:
        repeat = Repeat(**ask({**task, **entrants[row.name]}))
        wanted = row.equality.frames if row.equality else repeat.frames
        if task["case"] == _LINEAR["case"] and repeat.frames != wanted:
            raise WorkerError(f"the timed run delivered {repeat.frames} of {wanted} frames")
        return row.timed(repeat)

    return take


def contest(
    name: str,
    about: str,
    entrants: Entrants,
    case: str,
    text: Callable[[TimedResult], str],
    *,
    is_endless: bool = True,
    **parameters: Any,
) -> Benchmark:
    """Return a benchmark that compares entrants on all media.

    Args:
        name: Name of the result.
        about: Module docstring; its first line is the question.
        entrants: Entrants in table order.
        case: Function of the worker, `module:function`.
        text: Result → table.
        is_endless: Whether a repeat is stopped after some seconds; else it ends by itself.
        parameters: Further parameters of every entrant.
    """
    names = tuple(entrants)

    def measure(
        *,
        media: Path = DEFAULT_ROOT,
        count: int = 40,
        kinds: tuple[str, ...] = tuple(KINDS),
        libraries: tuple[str, ...] = names,
        repeats: int = 5,
        seconds: float | None = 8.0,
        workers: int = CORES,
        resume: bool = False,
        out: Path,
    ) -> Iterator[TimedResult]:
        """Compare the frames of all entrants, then time them, interleaved.

        Args:
            media: folder of the videos
            count: videos per kind
            kinds: kinds of videos
            libraries: entrants to compare
            repeats: timed repeats per entrant
            seconds: min seconds per repeat
            workers: threads and cores
            resume: continue the interrupted result in --out
            out: path of the result
        """
        common = {**parameters, **({} if seconds is None else {"seconds": seconds})}
        sets = {kind: paths(media, kind, count) for kind in kinds}
        provenance = origin(size=SIZE, workers=workers, repeats=repeats, **common)
        described = {"recipe": recipe(), "kinds": {k: describe(f) for k, f in sets.items()}}
        result = TimedResult(provenance=provenance, media=described)
        if resume:
            try:
                result = result.resumed(out)
            except ValueError as error:
                sys.exit(str(error))
        chosen = {name: entrants[name] for name in names if name in libraries}
        for kind, files in sets.items():
            task = task_of(case, files, workers, size=SIZE, **common)
            known_names = {row.name for row in result.rows if row.kind == kind}
            unproved = {name: chosen[name] for name in chosen if name not in known_names}
            result = result.updated(prove(unproved, task, kind), names)
            yield result
            rows = [row for name in chosen if (row := result.row(name, kind))]
            for after_round in rounds(rows, timed_by(chosen, task), repeats):
                result = result.updated(after_round, names)
                yield result

    return Benchmark(name, about, measure if is_endless else partial(measure, seconds=None), text)


_LINEAR = {"case": "cases:every_frame", "library": REFERENCE}
_LINEAR_TASK = ("cores", "paths", "size", "workers")


def _compare(expected: Mapping[str, Any], stored: Mapping[str, Any]) -> Equality:
    """Compare thumbnails of all or of requested frames, or checksums of all frames."""
    if "sums" in stored:
        right, sums = expected["sums"], stored["sums"]
        count, missing = min(len(right), len(sums)), abs(len(right) - len(sums))
        wrong = int((right[:count] != sums[:count]).sum())
        return Equality(frames=len(right), missing=missing, wrong=wrong, max_mean_difference=0.0)
    files = list(expected.values())
    if "requests" in stored:
        return compare_picked(files, stored["requests"], stored["pictures"])
    return compare(files, list(stored.values()))
