"""How long until frames of videos are pictures, beside ffmpeg with the same frames?

python -m benchmarks.bench_extract --repeats 1      # a first look
python -m benchmarks.bench_extract                  # a record that is kept, about six minutes

Whole commands are timed, from their start until the last file is there, of videos that nothing is
known of; what headrace writes beside the pictures (table, record, report) is in its time. Each
picture is held against a linear decode first.
"""

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks import media
from benchmarks.compare import SIZE
from benchmarks.extracting.cases import CASES, Case
from benchmarks.record import RESULTS, TimedResult, origin
from benchmarks.runner import Ask, Entrant, Task, ask_worker, prove, rounds

WAYS = ("headrace", "ffmpeg", "ffmpeg_at_once", "ffmpeg_predicted")


def main() -> None:
    """Prove, time, keep, print each way's speed beside ffmpeg's."""
    options = _parser().parse_args()
    parameters = {"repeats": options.repeats, "cores": options.cores}
    result = TimedResult(provenance=origin(parameters), media={"recipe": media.recipe()})
    for case in CASES:
        result = contest(result, case, options.media, options.cores, options.repeats)
        result.save(options.out)
    for row in result.rows:
        print(f"{row.kind} {row.name}: {row.failure or f'{row.speed:.1f} pictures/s'}")
    print(options.out)


def contest(
    result: TimedResult, case: Case, root: Path, cores: int, repeats: int, ask: Ask = ask_worker
) -> TimedResult:
    """Return the result with a case: on a single core, and on so many."""
    asked = {"frames": case.frames, "rate": case.rate, "picture": case.format}
    task = Task(
        question="extract_frames",
        kind=case.name,
        paths=case.paths(root),
        size=SIZE,
        workers=cores,
        asked=asked,
    )
    # Of neighbours that hardly differ, jpg does not tell which one it is.
    lossless = replace(task, asked={**asked, "picture": "png"})
    proved = {row.name: row for row in prove(_entrants(case, cores), lossless, ask)}
    for count in sorted({1, cores}):
        entrants = _entrants(case, count)
        bound = replace(task, kind=kind(case, count), workers=count)
        rows = [proved[each.name].model_copy(update={"kind": bound.kind}) for each in entrants]
        for timed in rounds(rows, entrants, bound, repeats, ask):
            result = result.updated(timed, WAYS)
    return result


def _entrants(case: Case, cores: int) -> list[Entrant]:
    return [Entrant(name=name, asked={"way": name}) for name in ways(case, cores)]


def kind(case: Case, cores: int) -> str:
    """Return what a row of the result calls a case on so many cores."""
    return f"{case.name}; {cores} core{'s' if cores > 1 else ''}"


def ways(case: Case, cores: int) -> Sequence[str]:
    """Return those that have something to show: a process for each video takes several of both."""
    at_once = ["ffmpeg_at_once"] if case.videos > 1 and cores > 1 else []
    predicted = ["ffmpeg_predicted"] if case.format == "png" else []
    return ["headrace", "ffmpeg", *at_once, *predicted]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--media", type=Path, default=media.DEFAULT_ROOT, help="their folder")
    parser.add_argument("--cores", type=int, default=os.cpu_count(), help="beside a single one")
    parser.add_argument("--repeats", type=int, default=3, help="of each, in turn")
    parser.add_argument("--out", type=Path, default=RESULTS / "extract.json")
    return parser


if __name__ == "__main__":
    main()
