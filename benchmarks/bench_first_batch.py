"""How long until a FrameLoader has its first batch of 128 random frames, and its first six?

python -m benchmarks.bench_first_batch
"""

import argparse
from collections.abc import Mapping, Sequence
from itertools import chain, islice, repeat
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch

from benchmarks import media
from benchmarks.record import RESULTS, Repeat, Row, TimedResult, origin
from headrace import FrameLoader, Uniform

BATCH_SIZE, BATCHES, SIZE = 128, 6, (256, 256)
KINDS = ("web", "cam")
NAIVE, AT_ONCE = "naive, lookahead=1", "1 GiB, its whole window at once"
WAYS: Mapping[str, Mapping[str, Any]] = {
    NAIVE: {"lookahead": 1},
    "256 MiB": {"memory_budget": "256MiB"},
    "1 GiB": {"memory_budget": "1GiB"},
    AT_ONCE: {"memory_budget": "1GiB"},
}
"""What each way is called → what it asks of the loader; the last asks for as many requests as the
one before it has in the end."""


def main(words: Sequence[str] | None = None) -> None:
    """Prove, time, keep, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--media", type=Path, default=media.DEFAULT_ROOT, help="their folder")
    parser.add_argument("--count", type=int, default=12, help="videos of each kind")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS / "first_batch.json")
    options = parser.parse_args(words)
    rows = []
    for kind in KINDS:
        paths = media.paths(options.media, kind, options.count)
        rows += measured(kind, paths, options.repeats)
    result = TimedResult(
        provenance=origin({"repeats": options.repeats, "files": options.count, "size": SIZE}),
        rows=tuple(rows),
    )
    result.save(options.out)
    for row in rows:
        first = median(each.first_seconds or 0.0 for each in row.repeats)
        whole = median(each.wall_seconds for each in row.repeats)
        print(f"{row.kind} {row.name}: first {first:.2f} s, {BATCHES} batches {whole:.2f} s")
    print(options.out)


def measured(kind: str, paths: Sequence[Path], repeats: int) -> list[Row]:
    """Each way in turn, after a round in which its frames are held against the naive way's."""
    with loader(paths, WAYS["1 GiB"]) as wide:
        ways = {name: {**asked} for name, asked in WAYS.items()}
        ways[AT_ONCE]["lookahead"] = wide.lookahead
    wanted = some_frames(paths, ways[NAIVE])
    rows = {}
    for name, asked in ways.items():
        is_same = torch.equal(some_frames(paths, asked), wanted)
        rows[name] = Row(name=name, kind=kind, failure=None if is_same else "its frames differ")
    for _ in range(repeats):
        for name, asked in ways.items():
            if rows[name].failure is None:
                found = (*rows[name].repeats, timed(paths, asked))
                rows[name] = rows[name].model_copy(update={"repeats": found})
    return list(rows.values())


def loader(paths: Sequence[Path], asked: Mapping[str, Any]) -> FrameLoader:
    """One that was never iterated; the indexes of its videos are known by then."""
    return FrameLoader(paths, batch_size=BATCH_SIZE, size=SIZE, sampling=Uniform(seed=1), **asked)


def some_frames(paths: Sequence[Path], asked: Mapping[str, Any]) -> torch.Tensor:
    """The frames of the first batches, of some of the videos."""
    with loader(paths[:3], asked) as opened:
        return torch.cat([batch.frames for batch in islice(opened, 3)])


def timed(paths: Sequence[Path], asked: Mapping[str, Any]) -> Repeat:
    """One loader, from its first batch being asked for."""
    with loader(paths, asked) as opened:
        began = perf_counter()
        ends = [perf_counter() for _ in islice(chain.from_iterable(repeat(opened)), BATCHES)]
        cost = opened.statistics
    return Repeat(
        first_seconds=ends[0] - began,
        wall_seconds=ends[-1] - began,
        frames=BATCH_SIZE * BATCHES,
        decoded=cost.frames_decoded,
        seeks=cost.seeks,
    )


if __name__ == "__main__":
    main()
