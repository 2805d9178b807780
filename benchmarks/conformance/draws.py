"""Does headrace deliver the frames of a plain linear decode, on randomly drawn files?

python -m benchmarks.conformance.draws --draws 50              # a first look
python -m benchmarks.conformance.draws                         # the full run
python -m benchmarks.conformance.draws --only 17 --keep DIR    # one draw again, with its file
python -m benchmarks.conformance.draws --damaged --codec h264 --draws 200 --seed 1

A draw is a random container, codec, encoder options, GOP structure, frame sizes, times, cut and
damage. One decoder reads single frames, pairs, runs across a keyframe and scattered frames in
random order, some of them as continued jobs; then it reads every frame in one pass. The exit status
is 1 if a frame is wrong or is refused without a complaint of FFmpeg, or after a traceback, a hang
or a crash.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.command_line import call
from benchmarks.conformance.compare_frames import Judge, run_job
from benchmarks.conformance.plain import NoVideoError, plain_decode
from benchmarks.conformance.process import Ask, Ended, Request, answers_of, ask_worker
from benchmarks.conformance.reference import Reference
from benchmarks.conformance.verdict import HEADRACE, JOBS, PASS, DrawRow, DrawsResult
from benchmarks.conformance.ways import judge_reading
from benchmarks.record import RESULTS, origin
from headrace import DecodeJob, IndexStore, StreamIndex, open_decoder
from tests.kit.synth_draw import Draw, draw_clip, write_draw

_PER_PROCESS = 20
"""Draws per process, enough to amortize its start."""
_MAX_NUMBER = 100_000
"""Draws that are searched for --codec and --damaged."""
_JOBS_PER_KIND = 5


def main(
    *,
    draws: int = 1000,
    seed: int = 0,
    only: int | None = None,
    damaged: bool = False,
    codec: str | None = None,
    keep: Path | None = None,
    timeout: float = 300.0,
    out: Path = RESULTS / "draws.json",
) -> int:
    """Draw files, compare, print and save; return the exit status.

    Args:
        draws: number of files
        seed: seed of the draws
        only: number of a single draw; saves no result
        damaged: only draw files with flipped bits; saves no result
        codec: only draw files of this codec, such as h264; saves no result
        keep: folder to keep the files in
        timeout: seconds for 20 draws (300)
        out: path of the result
    """
    numbers = draw_numbers(draws, seed, codec=codec, is_damaged=damaged) if only is None else [only]
    rows: list[DrawRow] = []
    is_interrupted = False
    try:
        for row in judge_draws(numbers, seed, timeout, keep=keep):
            rows.append(row)
            if row.is_fault or only is not None:
                print(_line(row), flush=True)
            elif sys.stderr.isatty():
                print(f"\r{len(rows)}/{len(numbers)}", end="", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        is_interrupted = True
    result = DrawsResult.of(origin(draws=len(rows), seed=seed, timeout=timeout), seed, rows)
    print(render(result))
    if only is None and not damaged and codec is None:
        result.save(out)
        print(out)
    return 130 if is_interrupted else int(bool(result.faults))


def draw_numbers(count: int, seed: int, *, codec: str | None, is_damaged: bool) -> list[int]:
    """Return the numbers of the first `count` draws with this codec, or with damage only."""
    numbers = (
        number
        for number in range(_MAX_NUMBER)
        for draw in [draw_of(seed, number)]
        if codec in (None, draw.clip.codec) and (draw.is_damaged or not is_damaged)
    )
    return list(islice(numbers, count))


def judge_draws(
    numbers: Sequence[int],
    seed: int,
    limit_seconds: float,
    *,
    keep: Path | None = None,
    ask: Ask = ask_worker,
) -> Iterator[DrawRow]:
    """Yield the row of each number; a hang or crash of the process becomes its verdict."""
    for begin in range(0, len(numbers), _PER_PROCESS):
        request = Request(
            work="benchmarks.conformance.draws:answer",
            items=numbers[begin : begin + _PER_PROCESS],
            options={"seed": seed, "folder": "" if keep is None else str(keep.resolve())},
            limit_seconds=limit_seconds,
        )
        for number, answer in answers_of(request, ask):
            if isinstance(answer, Ended):
                row = row_of(draw_of(seed, number), number)
                yield row.model_copy(update={"verdicts": (answer.verdict(HEADRACE, JOBS),)})
            else:
                yield DrawRow.model_validate(answer)


def draw_of(seed: int, number: int) -> Draw:
    """Return the draw with this number."""
    return draw_clip(Random(f"{seed}:{number}"))


def row_of(draw: Draw, number: int) -> DrawRow:
    """Return the row of a draw before its file is written."""
    clip = draw.clip
    return DrawRow(number=number, name=draw.name, codec=clip.codec, container=clip.container)


def answer(number: int, *, seed: int, folder: str) -> dict[str, Any]:
    """Return the row of one draw as JSON; its file is kept in `folder`, unless this is empty."""
    with TemporaryDirectory() as temporary:
        row = judge_draw(draw_of(seed, number), seed, number, Path(folder or temporary))
    return row.model_dump(mode="json")


def judge_draw(draw: Draw, seed: int, number: int, folder: Path) -> DrawRow:
    """Write one file into `folder`, and compare headrace's frames with a plain decode."""
    row = row_of(draw, number)
    try:
        path = write_draw(folder / f"draw-{seed}-{number}", draw)
        reference = plain_decode(path)
    except (ValueError, OSError, NoVideoError) as error:
        return row.model_copy(update={"not_made": f"{type(error).__name__}: {error}"})
    random = Random(f"{seed}:{number}:jobs")
    verdicts = []
    for way, jobs in ((JOBS, random_jobs(reference, random)), (PASS, None)):
        with TemporaryDirectory() as index:
            store, read = IndexStore(Path(index)), partial(_read, jobs=jobs)
            verdicts.append(judge_reading(way, path, store, reference, read)[0])
    counts = {"frames": len(reference), "complaints": len(reference.complaints)}
    row = row.model_copy(update={**counts, "verdicts": tuple(verdicts)})
    # Results have names of files without folders.
    return DrawRow.model_validate_json(row.model_dump_json().replace(f"{path.parent}/", ""))


def random_jobs(reference: Reference, random: Random) -> list[DecodeJob]:
    """Return single frames, pairs, runs across a keyframe and scattered frames, in random order."""
    count = len(reference)
    if not count:
        return []
    keyframes = np.flatnonzero(np.isin(reference.ordinals, reference.keyframes)).tolist() or [0]
    wanted: list[set[int]] = []
    for _ in range(_JOBS_PER_KIND):
        start = random.randrange(count)
        wanted += [{start}, {start, start + random.randint(1, 3)}]
        keyframe = random.choice(keyframes)
        wanted.append(set(range(keyframe - random.randint(1, 6), keyframe + random.randint(1, 6))))
        wanted.append({start + random.randrange(40) for _ in range(4)})
    random.shuffle(wanted)
    inside = [sorted(frames & set(range(count))) for frames in wanted]
    return [DecodeJob(tuple(frames), goes_on=random.random() < 0.5) for frames in inside if frames]


def _read(index: StreamIndex, judge: Judge, *, jobs: Sequence[DecodeJob] | None) -> None:
    """Read the frames of the jobs; None: every frame in one job."""
    every = range(len(index))
    with closing(open_decoder(index)) as decoder:
        for job in [DecodeJob(tuple(every))] if jobs is None else jobs:
            indexed = tuple(n for n in job.wanted if n in every)
            if indexed:
                run_job(decoder, DecodeJob(indexed, goes_on=job.goes_on), judge)
    if jobs is None:
        judge.unindexed()


def render(result: DrawsResult) -> str:
    """Return the counts, in total and by codec."""
    lines = [f"seed {result.seed}; {result.not_made} draws could not be encoded or opened"]
    for count in (result.total, *result.codecs):
        kinds = ", ".join(f"{files} {kind}" for kind, files in count.files.items() if files)
        lines.append(
            f"{count.what}: {count.draws} files ({kinds}); {count.frames:,} frames, {count.wrong} "
            f"wrong, {count.refused_with} refused with a complaint, {count.refused_without} without"
        )
    return "\n".join(lines)


def _line(row: DrawRow) -> str:
    parts = [
        f"{verdict.way}: {verdict.kind}, {verdict.wrong} wrong and {verdict.refused_without} "
        f"refused of {verdict.frames} ({'; '.join(verdict.examples[:2]) or verdict.reason})"
        for verdict in row.verdicts
    ]
    facts = f"{row.frames} frames, {row.complaints} complaints"
    return f"--only {row.number}: {row.name} ({facts}): {row.not_made}{' | '.join(parts)}"


if __name__ == "__main__":
    sys.exit(call(main, __doc__))
