"""A benchmark as a value, and what all share: flags, equality first, interleaved repeats."""

import os
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np

from benchmarks import media
from benchmarks.equality import Equality, compare, compare_picked
from benchmarks.record import RESULTS, Repeat, Result, Row, Timed, TimedResult, origin
from benchmarks.worker import Ask, WorkerError, ask_worker

REFERENCE = "pyav_loop"
"""Its frames are right by definition: a linear decode of everything."""
SIZE = (256, 256)
AnyTimed = TypeVar("AnyTimed", bound=Timed)
Flag = Mapping[str, Any]
"""Arguments of `ArgumentParser.add_argument`."""


def flag(default: Any, about: str = "", **more: Any) -> Flag:
    """Return an option whose type is that of its default; a list takes several values."""
    if isinstance(default, bool):
        return {"action": "store_true", "help": about}
    several = isinstance(default, list)
    one = default[0] if several else default
    kind = Path if isinstance(one, Path) else type(one)
    return {
        "type": kind,
        "default": default,
        "help": about,
        **({"nargs": "+"} if several else {}),
    } | more


MEDIA = flag(media.DEFAULT_ROOT, "their folder")
WORKERS = flag(os.cpu_count() or 1, "threads and cores")


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """One question, what it is measured with, and how its result is read."""

    name: str
    """Of its result."""
    about: str
    """Its first line is the question."""
    flags: Mapping[str, Flag]
    """Name → option; `out` is added where it is missing."""
    measure: Callable[[Namespace], Iterable[Result]]
    """Yields the result, as often as there is more of it: each is kept at once."""
    lines: Callable[[Any], Iterable[str]] = lambda result: map(speed_line, result.rows)
    """What is printed of the last one."""

    def main(self, words: Sequence[str] | None = None) -> None:
        """Measure, keep, print."""
        options = self.parse(words)
        result = None
        for result in self.measure(options):
            result.save(options.out)
        for line in self.lines(result):
            print(line)
        print(options.out)

    def parse(self, words: Sequence[str] | None = None) -> Namespace:
        """Return the options of a command line; None means that of this process."""
        parser = ArgumentParser(description=self.about, formatter_class=RawDescriptionHelpFormatter)
        out = {"out": flag(RESULTS / f"{self.name}.json")}
        for name, arguments in {**self.flags, **({} if "out" in self.flags else out)}.items():
            parser.add_argument(f"--{name.replace('_', '-')}", **arguments)
        return parser.parse_args(words)


def parameters(options: Namespace, *names: str) -> dict[str, Any]:
    """Return the options of these names."""
    return {name: getattr(options, name) for name in names}


def speed_line(row: Row) -> str:
    """Return a row in a line."""
    return f"{row.kind} {row.name}: {row.failure or f'{row.speed:.1f} frames/s'}"


@dataclass(frozen=True, kw_only=True)
class Entrant:
    """One of the things compared, and what it alone is asked with."""

    name: str
    asked: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Task:
    """What every entrant is asked for with the videos of one kind."""

    case: str
    """See `benchmarks.worker`."""
    kind: str
    paths: Sequence[Path]
    size: tuple[int, int] = SIZE
    workers: int
    """Threads, and cores the process is bound to."""
    asked: Mapping[str, Any] = field(default_factory=dict)
    """What else."""

    def request(self, entrant: Mapping[str, Any], pictures: Path | None = None) -> dict[str, Any]:
        """Return what a worker is asked: for times, or for the pictures in a file."""
        return {
            "case": self.case,
            "cores": self.workers,
            "paths": [str(path.resolve()) for path in self.paths],
            "size": self.size,
            "workers": self.workers,
            "pictures": str(pictures) if pictures else None,
            **self.asked,
            **entrant,
        }


def prove(
    entrants: Sequence[Entrant],
    task: Task,
    ask: Ask = ask_worker,
    reference: Mapping[str, Any] | None = None,
) -> list[Row]:
    """One row per entrant without repeats: are its frames those of `reference`?

    That is a linear decode, if no other is given.
    """
    if not entrants:
        return []
    right = task
    if reference is None:
        right, reference = replace(task, case="cases:every_frame", asked={}), {"library": REFERENCE}
    with TemporaryDirectory() as folder:
        place = Path(folder) / "pictures.npz"
        ask(right.request(reference, place))
        with np.load(place) as stored:
            expected = dict(stored)
        return [_prove(each, task, expected, place, ask) for each in entrants]


def rounds(
    rows: Sequence[AnyTimed], take: Callable[[AnyTimed], Repeat], count: int
) -> Iterator[list[AnyTimed]]:
    """Yield all rows after each round, until every sound one was timed `count` times.

    The repeats are interleaved (A B C A B C ...), so that a slow minute of the machine hits all.
    Repeats that rows have already count as those of the first rounds.
    """
    current = list(rows)
    for earlier in range(count):
        current = [
            timed(row, take) if row.is_sound and len(row.repeats) <= earlier else row
            for row in current
        ]
        yield current


def timed(row: AnyTimed, take: Callable[[AnyTimed], Repeat]) -> AnyTimed:
    """Return the row with one more repeat, or with the reason why there is none."""
    try:
        repeat = take(row)
    except WorkerError as error:
        print(f"{row.words}: {error}", flush=True)
        return row.failed(str(error))
    speed = f", {repeat.frames_per_second:.1f} frames/s" if repeat.frames else ""
    share = repeat.others_share
    others = "" if share is None else f", others used {share:.0%} of the machine"
    print(f"{row.words}: {repeat.wall_seconds:.2f} s{speed}{others}", flush=True)
    return row.timed(repeat)


def asked_of(
    entrants: Sequence[Entrant], task: Task, ask: Ask = ask_worker
) -> Callable[[Row], Repeat]:
    """Return what takes a repeat of an entrant's row; one that loses frames fails."""
    requests = {each.name: task.request(each.asked) for each in entrants}

    def take(row: Row) -> Repeat:
        repeat = Repeat(**ask(requests[row.name]))
        wanted = row.equality.frames if row.equality else repeat.frames
        if task.case == "cases:every_frame" and repeat.frames != wanted:
            raise WorkerError(f"{repeat.frames} of {wanted} frames when timed")
        return repeat

    return take


def compared(
    name: str,
    about: str,
    entrants: Sequence[Entrant],
    case: str,
    *,
    seconds: float | None = None,
    asked: Mapping[str, Any] | None = None,
) -> Benchmark:
    """Return a benchmark that holds entrants against each other on all media.

    It goes on after an interruption with --resume.

    Args:
        name: Of the result.
        about: Its first line is the question.
        entrants: In the order of the table.
        case: What a worker is asked.
        seconds: That a repeat is timed for at least; None where it ends by itself.
        asked: What else every entrant is asked with.
    """
    names, kinds = [each.name for each in entrants], list(media.KINDS)
    timing = (
        {} if seconds is None else {"seconds": flag(float(seconds), "that a turn is timed for")}
    )

    def measure(options: Namespace) -> Iterator[Result]:
        common = {**parameters(options, *timing), **(asked or {})}
        sets = {kind: media.paths(options.media, kind, options.count) for kind in options.kinds}
        known = {kind: media.describe(paths) for kind, paths in sets.items()}
        result = TimedResult(
            provenance=origin(
                {"size": SIZE, **parameters(options, "workers", "repeats"), **common}
            ),
            media={"recipe": media.recipe(), "kinds": known},
        )
        if options.resume:
            try:
                result = result.resumed(options.out)
            except ValueError as error:
                sys.exit(str(error))
        chosen = [each for each in entrants if each.name in options.libraries]
        for kind, paths in sets.items():
            task = Task(case=case, kind=kind, paths=paths, workers=options.workers, asked=common)
            unproved = [each for each in chosen if result.row(each.name, kind) is None]
            result = result.updated(prove(unproved, task), names)
            yield result
            rows = [row for each in chosen if (row := result.row(each.name, kind))]
            for after_round in rounds(rows, asked_of(chosen, task), options.repeats):
                result = result.updated(after_round, names)
                yield result

    return Benchmark(
        name=name,
        about=about,
        flags={
            "media": MEDIA,
            "count": flag(40, "videos of each kind"),
            "kinds": flag(kinds, choices=kinds),
            "libraries": flag(names, choices=names),
            "repeats": flag(5, "of each, in turn"),
            **timing,
            "workers": WORKERS,
            "resume": flag(False, "go on with what is in --out"),
        },
        measure=measure,
    )


def _prove(entrant: Entrant, task: Task, expected: Mapping[str, Any], place: Path, ask: Ask) -> Row:
    row = Row(name=entrant.name, kind=task.kind)
    try:
        answer = ask(task.request(entrant.asked, place))
    except WorkerError as error:
        print(f"{row.words}: {error}", flush=True)
        return row.failed(str(error))
    with np.load(place) as stored:
        found = _compare(expected, stored)
    right = "equal" if found.holds else f"{found.missing} missing and {found.wrong} wrong"
    print(f"{row.words}: {found.frames} frames, {right}", flush=True)
    return row.model_copy(update={"equality": found, "versions": answer["versions"]})


def _compare(expected: Mapping[str, Any], stored: Mapping[str, Any]) -> Equality:
    """All pictures of each file, those that were requested, or checksums of all frames."""
    if "sums" in stored:
        right, sums = expected["sums"], stored["sums"]
        count = min(len(right), len(sums))
        return Equality(
            frames=len(right),
            missing=abs(len(right) - len(sums)),
            wrong=int((right[:count] != sums[:count]).sum()),
            max_mean_difference=0.0,
        )
    files = list(expected.values())
    if "requests" in stored:
        return compare_picked(files, stored["requests"], stored["pictures"])
    return compare(files, list(stored.values()))
