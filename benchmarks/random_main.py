"""The command line of the two benchmarks of random access."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import media
from benchmarks.random_runner import Entrant, RandomTask, prove, rounds
from benchmarks.record import RandomResult, Spread, conditions

SIZE = (256, 256)


def run(
    question: str,
    entrants: Sequence[Entrant],
    *,
    batch_size: int,
    clip: tuple[int, int] | None,
    out: Path,
) -> None:
    """Prove, time, keep after every round, print; with --resume, go on after an interruption."""
    names = [each.name for each in entrants]
    parser = argparse.ArgumentParser(description=question.splitlines()[0])
    parser.add_argument("--media", type=Path, default=media.DEFAULT_ROOT, help="their folder")
    parser.add_argument("--count", type=int, default=40, help="videos of each kind")
    parser.add_argument("--kinds", nargs="+", default=list(media.KINDS), choices=media.KINDS)
    parser.add_argument("--libraries", nargs="+", default=names, choices=names)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8, help="that each is timed in a round")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="threads and cores")
    parser.add_argument("--out", type=Path, default=out)
    parser.add_argument("--resume", action="store_true", help="go on with what is in --out")
    options = parser.parse_args()
    chosen = [each for each in entrants if each.name in options.libraries]

    tasks = [
        RandomTask(
            kind=kind,
            paths=media.paths(options.media, kind, options.count),
            size=SIZE,
            workers=options.workers,
            batch_size=batch_size,
            clip=clip,
            seconds=options.seconds,
        )
        for kind in options.kinds
    ]
    found = conditions(
        parameters={
            "size": SIZE,
            "workers": options.workers,
            "rounds": options.rounds,
            "seconds": options.seconds,
            "batch_size": batch_size,
            "clip": clip,
        },
        media={
            "recipe": media.recipe(),
            "kinds": {task.kind: media.describe(task.paths) for task in tasks},
        },
    )
    result = RandomResult(conditions=found, rows=())
    if options.resume:
        try:
            result = RandomResult.begun(options.out, found)
        except ValueError as error:
            sys.exit(str(error))
    for task in tasks:
        unproved = [each for each in chosen if result.row(each.name, task.kind) is None]
        result = _keep(result.updated(prove(unproved, task), names), options.out)
        rows = [row for each in chosen if (row := result.row(each.name, task.kind))]
        for after_round in rounds(rows, chosen, task, options.rounds):
            result = _keep(result.updated(after_round, names), options.out)
    for row in result.rows:
        if row.repeats:
            speed = Spread.of([each.frames_per_second for each in row.repeats])
            print(f"{row.kind} {row.library}: {speed.median:.1f} frames/s")
    print(options.out)


def _keep(result: RandomResult, out: Path) -> RandomResult:
    result.save(out)
    return result
