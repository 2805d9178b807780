"""A benchmark as a value, and what all share: flags, equality first, interleaved repeats."""

import os
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np

from benchmarks import media
from benchmarks.equality import Equality, compare, compare_picked
from benchmarks.record import RESULTS, Repeat, Result, Row, TimedResult, Tried, origin
from benchmarks.worker import Ask, WorkerError, ask_worker

REFERENCE = "pyav_loop"
"""Its frames are right by definition: a linear decode of everything."""
SIZE = (256, 256)
AnyTried = TypeVar("AnyTried", bound=Tried)
Entrants = Mapping[str, Mapping[str, Any]]
"""Name → what this one alone is asked with."""
Flag = dict[str, Any]
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
REPEATS = flag(3, "of each, in turn")


def parameters(options: Namespace, *names: str) -> dict[str, Any]:
    """Return the options of these names."""
    return {name: getattr(options, name) for name in names}


def speeds(result: TimedResult) -> str:
    """Return a line for each row."""
    return "\n".join(
        f"{row.words}: {row.failure or f'{row.speed:.1f} frames/s'}" for row in result.rows
    )


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
    result: type[Any] = TimedResult
    """Of `measure`."""
    text: Callable[[Any], str] = speeds
    """What is printed of the last result."""

    def main(self, words: Sequence[str] | None = None) -> None:
        """Measure, keep, print."""
        options = self.parse(words)
        result = None
        for result in self.measure(options):
            result.save(options.out)
        print(self.text(result), options.out, sep="\n")

    def parse(self, words: Sequence[str] | None = None) -> Namespace:
        """Return the options of a command line; None means that of this process."""
        out = flag(RESULTS / f"{self.name}.json")
        return parse(self.about, {"out": out, **self.flags}, words)


def parse(
    about: str, flags: Mapping[str, Flag], words: Sequence[str] | None = None, **positional: Flag
) -> Namespace:
    """Return the options of a command line, and its words in their order by name.

    `words` are those of this process where they are None.
    """
    parser = ArgumentParser(description=about, formatter_class=RawDescriptionHelpFormatter)
    for name, arguments in positional.items():
        parser.add_argument(name, **arguments)
    for name, arguments in flags.items():
        parser.add_argument(f"--{name.replace('_', '-')}", **arguments)
    return parser.parse_args(words)


def task_of(case: str, paths: Sequence[Path], workers: int, **asked: Any) -> dict[str, Any]:
    """Return what a worker is asked with videos; see `benchmarks.worker`.

    It asks for times: with a path as `pictures`, it would ask for the pictures in that file.

    Args:
        case: The function that answers.
        paths: The videos.
        workers: Threads, and cores the process is bound to.
        asked: What else.
    """
    words = [str(path.absolute()) for path in paths]  # a link is a file of its own
    return {"case": case, "cores": workers, "workers": workers, "paths": words, **asked}


def prove(
    entrants: Entrants,
    task: Mapping[str, Any],
    kind: str = "",
    ask: Ask = ask_worker,
    reference: Mapping[str, Any] | None = None,
) -> list[Row]:
    """One row per entrant without repeats: are its frames those of `reference`?

    That is a linear decode, if no other is given.
    """
    if not entrants:
        return []
    right = task if reference else {name: task[name] for name in _LINEAR_TASK}
    with TemporaryDirectory() as folder:
        place = str(Path(folder) / "pictures.npz")
        ask({**right, **(reference or _LINEAR), "pictures": place})
        with np.load(place) as stored:
            expected = dict(stored)

        def compared(row: Row) -> Row:
            answer = ask({**task, **entrants[row.name], "pictures": place})
            with np.load(place) as stored:
                equality = _compare(expected, stored)
            return row.model_copy(update={"equality": equality, "versions": answer["versions"]})

        return [tried(Row(name=name, kind=kind), compared) for name in entrants]


def rounds(
    rows: Sequence[AnyTried], take: Callable[[AnyTried], AnyTried], count: int
) -> Iterator[list[AnyTried]]:
    """Yield all rows after each round, until `take` gave every sound one `count` repeats.

    The repeats are interleaved (A B C A B C ...), so that a slow minute of the machine hits all.
    Repeats that rows have already count as those of the first rounds.
    """
    current = list(rows)
    for earlier in range(count):
        current = [
            tried(row, take) if row.is_sound and row.count <= earlier else row for row in current
        ]
        yield current


def tried(row: AnyTried, step: Callable[[AnyTried], AnyTried]) -> AnyTried:
    """Return what `step` makes of the row, or the row with the reason why it failed."""
    try:
        found = step(row)
    except WorkerError as error:
        found = row.failed(str(error))
    print(f"{row.words}: {found.failure or found.progress}", flush=True)
    return found


def timed_by(
    entrants: Entrants, task: Mapping[str, Any], ask: Ask = ask_worker
) -> Callable[[Row], Row]:
    """Return what gives an entrant's row one more repeat; one that loses frames fails."""

    def take(row: Row) -> Row:
        repeat = Repeat(**ask({**task, **entrants[row.name]}))
        wanted = row.equality.frames if row.equality else repeat.frames
        if task["case"] == _LINEAR["case"] and repeat.frames != wanted:
            raise WorkerError(f"{repeat.frames} of {wanted} frames when timed")
        return row.timed(repeat)

    return take


def contest(
    name: str,
    about: str,
    entrants: Entrants,
    case: str,
    *,
    seconds: float | None = None,
    text: Callable[[TimedResult], str],
    **asked: Any,
) -> Benchmark:
    """Return a benchmark that holds entrants against each other on all media.

    It goes on after an interruption with --resume.

    Args:
        name: Of the result.
        about: Its first line is the question.
        entrants: In the order of the table.
        case: What a worker is asked.
        seconds: That a repeat is timed for at least; None where it ends by itself.
        text: Its table.
        asked: What else every entrant is asked with.
    """
    names, kinds = list(entrants), list(media.KINDS)
    timing = {"seconds": flag(float(seconds), "that a turn is timed for")} if seconds else {}

    def measure(options: Namespace) -> Iterator[Result]:
        common = {**parameters(options, *timing), **asked}
        sets = {kind: media.paths(options.media, kind, options.count) for kind in options.kinds}
        known = {kind: media.describe(paths) for kind, paths in sets.items()}
        made = origin({"size": SIZE, **parameters(options, "workers", "repeats"), **common})
        result = TimedResult(provenance=made, media={"recipe": media.recipe(), "kinds": known})
        if options.resume:
            try:
                result = result.resumed(options.out)
            except ValueError as error:
                sys.exit(str(error))
        chosen = {name: entrants[name] for name in names if name in options.libraries}
        for kind, paths in sets.items():
            task = task_of(case, paths, options.workers, size=SIZE, **common)
            known_names = {row.name for row in result.rows if row.kind == kind}
            unproved = {name: chosen[name] for name in chosen if name not in known_names}
            result = result.updated(prove(unproved, task, kind), names)
            yield result
            rows = [row for name in chosen if (row := result.row(name, kind))]
            for after_round in rounds(rows, timed_by(chosen, task), options.repeats):
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
            "repeats": REPEATS | {"default": 5},
            **timing,
            "workers": WORKERS,
            "resume": flag(False, "go on with what is in --out"),
        },
        measure=measure,
        text=text,
    )


_LINEAR = {"case": "cases:every_frame", "library": REFERENCE}
_LINEAR_TASK = ("cores", "paths", "size", "workers")


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
