"""Does every entry into a file drawn at random give the frames that a plain linear decode gives?

python -m benchmarks.conformance.draws --draws 50              # a first look
python -m benchmarks.conformance.draws                         # the record that is kept
python -m benchmarks.conformance.draws --only 17 --keep DIR    # one of them again, and its file
python -m benchmarks.conformance.draws --damaged --codec h264 --draws 200 --seed 1

Each draw is a container, a codec, its options, a structure, sizes, times, a cut and damage. Single
frames, pairs, runs over a keyframe and scattered frames are read in random order on one decoder,
whether another job goes on or not; then every frame in one pass. Exit status 1: a frame is wrong
or refused without a complaint of FFmpeg's, or there is a traceback, a hang or a crash.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.conformance.draws_worker import DrawRequest, drawn, row_of
from benchmarks.conformance.runner import Ended, ask_worker
from benchmarks.conformance.verdict import HEADRACE, JOBS, DrawCount, DrawRow, DrawsResult, Verdict
from benchmarks.record import RESULTS, origin

_AT_ONCE = 20
"""Draws of one process: enough that its start costs little."""
_MOST_DRAWS = 100_000
"""Are looked through for those that are asked for."""
_WORKER = "benchmarks.conformance.draws_worker"


def main(words: Sequence[str] | None = None) -> int:
    """Draw, read, print and keep; return the exit status."""
    options = _parser().parse_args(words)
    numbers = chosen(options.draws, options.seed, codec=options.codec, is_damaged=options.damaged)
    if options.only is not None:
        numbers = [options.only]
    is_kept = options.only is None and not options.damaged and options.codec is None
    rows: list[DrawRow] = []
    is_cut = False
    try:
        for row in judged(numbers, options.seed, options.timeout, keep=options.keep):
            rows.append(row)
            if row.is_fault or options.only is not None:
                print(_line(row), flush=True)
            elif sys.stderr.isatty():
                print(f"\r{len(rows)}/{len(numbers)}", end="", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        is_cut = True
    parameters = {"draws": len(rows), "seed": options.seed, "timeout": options.timeout}
    result = DrawsResult.of(origin(parameters), options.seed, rows)
    print(render(result))
    if is_kept:
        result.save(options.out)
        print(options.out)
    if is_cut:
        return 130
    return 1 if result.faults else 0


def chosen(count: int, seed: int, *, codec: str | None, is_damaged: bool) -> list[int]:
    """Return the first numbers whose draws are of a codec, and damaged, where that is asked for."""
    found = (
        number
        for number in range(_MOST_DRAWS)
        for draw in [drawn(seed, number)]
        if codec in (None, draw.clip.codec) and (draw.is_damaged or not is_damaged)
    )
    return list(islice(found, count))


def judged(
    numbers: Sequence[int],
    seed: int,
    limit_seconds: float,
    *,
    keep: Path | None = None,
    ask: Callable[[DrawRequest, str], Ended] = ask_worker,
) -> Iterator[DrawRow]:
    """Yield a row for each number; one at which a process hangs or crashes gets that as verdict."""
    left = list(numbers)
    with TemporaryDirectory(prefix="draws-") as folder:
        while left:
            request = DrawRequest(
                numbers=tuple(left[:_AT_ONCE]),
                seed=seed,
                folder="" if keep is None else str(keep.resolve()),
                answers=str(Path(folder) / "answers.jsonl"),
                limit_seconds=limit_seconds,
            )
            ended = ask(request, _WORKER)
            found = [DrawRow.model_validate(each["row"]) for each in ended.answers]
            if ended.ending != "done":
                number = left[len(found)] if len(found) < len(left) else left[-1]
                end = Verdict(party=HEADRACE, way=JOBS, ending=ended.ending, reason=ended.reason)
                row = row_of(drawn(seed, number), number)
                found.append(row.model_copy(update={"verdicts": (end,)}))
            yield from found
            left = left[len(found) :]


def render(result: DrawsResult) -> str:
    """Return the counts, all together and codec by codec."""
    lines = [f"seed {result.seed}, {result.not_made} draws that cannot be made here"]
    for count in (result.total, *result.codecs):
        lines.append(f"{count.what}: {_words(count)}")
    return "\n".join(lines)


def _words(count: DrawCount) -> str:
    kinds = ", ".join(f"{files} {kind}" for kind, files in count.files.items() if files)
    return (
        f"{count.draws} files ({kinds}); {count.frames:,} frames, {count.wrong} wrong, "
        f"{count.refused_with} refused as FFmpeg complains, {count.refused_without} without"
    )


def _line(row: DrawRow) -> str:
    parts = [
        f"{each.way}: {each.kind}, {each.wrong} wrong and {each.refused_without} refused of "
        f"{each.frames} ({'; '.join(each.examples[:2]) or each.reason})"
        for each in row.verdicts
    ]
    facts = f"{row.frames} frames, {row.complaints} complaints"
    return f"--only {row.number}: {row.name} ({facts}): {row.not_made}{' | '.join(parts)}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, metavar="N", help="this draw alone; nothing is kept")
    parser.add_argument(
        "--damaged", action="store_true", help="files with flipped bits alone; nothing is kept"
    )
    parser.add_argument("--codec", help="files of it alone, as h264; nothing is kept")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the files there")
    parser.add_argument(
        "--timeout", type=float, default=300, help=f"seconds for {_AT_ONCE} draws (300)"
    )
    parser.add_argument("--out", type=Path, default=RESULTS / "draws.json")
    return parser


if __name__ == "__main__":
    sys.exit(main())
