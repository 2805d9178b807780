"""The command line of the benchmarks that hold entrants against each other on all media."""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import media
from benchmarks.record import RESULTS, TimedResult, origin
from benchmarks.runner import Entrant, Task, prove, rounds

SIZE = (256, 256)


def way(module: str, **asked: str) -> Entrant:
    """Return an entrant of `benchmarks.random_access`, named for its module and what it may use."""
    return Entrant(name="_".join([module, *asked.values()]), asked={"way": module, **asked})


def run(
    about: str,
    entrants: Sequence[Entrant],
    *,
    question: str,
    out: str,
    seconds: float | None = None,
    asked: Mapping[str, Any] | None = None,
    words: Sequence[str] | None = None,
) -> None:
    """Prove, time, keep after every round, print; with --resume, go on after an interruption.

    Args:
        about: What the benchmark asks; its first line is shown by --help.
        entrants: In the order of the table.
        question: Module of `benchmarks.questions`.
        out: Name of the result.
        seconds: That a repeat is timed for at least; None where it ends by itself.
        asked: What else every entrant is asked with.
        words: The command line; None means that of this process.
    """
    options = _parser(about, [each.name for each in entrants], out, seconds).parse_args(words)
    chosen = [each for each in entrants if each.name in options.libraries]
    common = {**({} if seconds is None else {"seconds": options.seconds}), **(asked or {})}
    sets = {kind: media.paths(options.media, kind, options.count) for kind in options.kinds}
    result = TimedResult(
        provenance=origin(
            {"size": SIZE, "workers": options.workers, "repeats": options.repeats, **common}
        ),
        media={
            "recipe": media.recipe(),
            "kinds": {kind: media.describe(paths) for kind, paths in sets.items()},
        },
    )
    if options.resume:
        try:
            result = result.resumed(options.out)
        except ValueError as error:
            sys.exit(str(error))
    for kind, paths in sets.items():
        task = Task(
            question=question,
            kind=kind,
            paths=paths,
            size=SIZE,
            workers=options.workers,
            asked=common,
        )
        result = _timed(result, task, chosen, entrants, options)
    for row in result.rows:
        print(f"{row.kind} {row.name}: {row.speed:.1f} frames/s")
    print(options.out)


def _timed(
    result: TimedResult,
    task: Task,
    chosen: Sequence[Entrant],
    entrants: Sequence[Entrant],
    options: argparse.Namespace,
) -> TimedResult:
    """Return the result with the rows of one kind of media, kept after every round."""
    names = [each.name for each in entrants]
    unproved = [each for each in chosen if result.row(each.name, task.kind) is None]
    result = result.updated(prove(unproved, task), names)
    result.save(options.out)
    rows = [row for each in chosen if (row := result.row(each.name, task.kind))]
    for after_round in rounds(rows, chosen, task, options.repeats):
        result = result.updated(after_round, names)
        result.save(options.out)
    return result


def _parser(
    about: str, names: list[str], out: str, seconds: float | None
) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    add = parser.add_argument
    add("--media", type=Path, default=media.DEFAULT_ROOT, help="their folder")
    add("--count", type=int, default=40, help="videos of each kind")
    add("--kinds", nargs="+", default=list(media.KINDS), choices=media.KINDS)
    add("--libraries", nargs="+", default=names, choices=names)
    add("--repeats", type=int, default=5, help="of each, in turn")
    if seconds is not None:
        add("--seconds", type=float, default=seconds, help="that each is timed for in a turn")
    add("--workers", type=int, default=os.cpu_count(), help="threads and cores")
    add("--out", type=Path, default=RESULTS / f"{out}.json")
    add("--resume", action="store_true", help="go on with what is in --out")
    return parser
