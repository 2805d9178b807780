"""Files drawn at random, in a process of its own: a request on stdin, lines of JSON into a file.

{"numbers": [0, 1, ...], "seed": 0, "folder": ..., "answers": ..., "limit_seconds": 300}
"""

import faulthandler
import json
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.conformance.compare_frames import Judge, run_job
from benchmarks.conformance.plain import NoVideoError, plain_decode
from benchmarks.conformance.reference import Reference
from benchmarks.conformance.verdict import JOBS, PASS, DrawRow
from benchmarks.conformance.ways import judge_reading
from headrace.decode.index_store import IndexStore
from headrace.decode.open import open_decoder
from headrace.decode.protocol import DecodeJob
from headrace.video.stream_index import StreamIndex
from tests.kit.synth_draw import Draw, draw_clip, write_draw

_JOBS_OF_A_KIND = 5


@dataclass(frozen=True, kw_only=True)
class DrawRequest:
    """Which files are drawn."""

    numbers: Sequence[int]
    seed: int
    folder: str
    """Where they are kept; empty: they are not."""
    answers: str
    limit_seconds: float


def main() -> None:
    """Draw, write, read and judge one file after the other."""
    faulthandler.enable()
    request = DrawRequest(**json.load(sys.stdin))
    faulthandler.dump_traceback_later(request.limit_seconds * 0.95)
    with Path(request.answers).open("a", encoding="utf-8") as answers:
        for number in request.numbers:
            draw = drawn(request.seed, number)
            print(json.dumps({"begun": number}), file=answers, flush=True)
            with TemporaryDirectory() as parts:
                row = judge_draw(draw, request.seed, number, Path(request.folder or parts))
            line = {"done": number, "row": row.model_dump(mode="json")}
            print(json.dumps(line), file=answers, flush=True)
    faulthandler.cancel_dump_traceback_later()


def drawn(seed: int, number: int) -> Draw:
    """Return the draw of that number."""
    return draw_clip(Random(f"{seed}:{number}"))


def row_of(draw: Draw, number: int) -> DrawRow:
    """Return what is known of a draw before it is written."""
    clip = draw.clip
    return DrawRow(number=number, name=draw.name, codec=clip.codec, container=clip.container)


def judge_draw(draw: Draw, seed: int, number: int, folder: Path) -> DrawRow:
    """Write one file into `folder`, and hold what headrace reads of it against a plain decode."""
    row = row_of(draw, number)
    try:
        path = write_draw(folder / f"draw-{seed}-{number}", draw)
        reference, _ = plain_decode(path)
    except (ValueError, OSError, NoVideoError) as error:
        return row.model_copy(update={"not_made": f"{type(error).__name__}: {error}"})
    random = Random(f"{seed}:{number}:jobs")
    verdicts = []
    for way, read in (
        (JOBS, partial(_read_jobs, jobs=random_jobs(reference, random))),
        (PASS, _read_once),
    ):
        with TemporaryDirectory() as index:
            store = IndexStore(Path(index))
            verdicts.append(judge_reading(way, path, store, reference, read)[0])
    row = row.model_copy(
        update={
            "frames": len(reference),
            "complaints": len(reference.complaints),
            "verdicts": tuple(verdicts),
        }
    )
    # A record tells of files, not of where they lay.
    return DrawRow.model_validate_json(row.model_dump_json().replace(f"{path.parent}/", ""))


def random_jobs(reference: Reference, random: Random) -> list[DecodeJob]:
    """Return single frames, pairs, runs over a keyframe and scattered frames, in random order."""
    count = len(reference)
    if not count:
        return []
    keyframes = np.flatnonzero(np.isin(reference.ordinals, reference.keyframes)).tolist() or [0]
    wanted: list[set[int]] = []
    for _ in range(_JOBS_OF_A_KIND):
        start = random.randrange(count)
        wanted.append({start})
        wanted.append({start, start + random.randint(1, 3)})
        keyframe = random.choice(keyframes)
        wanted.append(set(range(keyframe - random.randint(1, 6), keyframe + random.randint(1, 6))))
        wanted.append({start + random.randrange(40) for _ in range(4)})
    random.shuffle(wanted)
    inside = [sorted(each & set(range(count))) for each in wanted]
    return [DecodeJob(tuple(each), goes_on=random.random() < 0.5) for each in inside if each]


def _read_jobs(index: StreamIndex, judge: Judge, *, jobs: Sequence[DecodeJob]) -> None:
    with closing(open_decoder(index)) as decoder:
        for job in jobs:
            known = tuple(n for n in job.wanted if n < len(index))
            if known:
                run_job(decoder, DecodeJob(known, goes_on=job.goes_on), judge)


def _read_once(index: StreamIndex, judge: Judge) -> None:
    with closing(open_decoder(index)) as decoder:
        run_job(decoder, DecodeJob(tuple(range(len(index)))), judge)
    judge.unindexed()


if __name__ == "__main__":
    main()
