"""How long until a FrameLoader has its first batch of 128 random frames, and its first six?

python -m benchmarks.bench_first_batch
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, repeat
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch

from benchmarks.adapters.headrace import cost
from benchmarks.kit import SIZE, Benchmark, rounds
from benchmarks.markdown import machine, rendered, spread
from benchmarks.media import DEFAULT_ROOT, KINDS, paths
from benchmarks.record import Repeat, Row, TimedResult, origin
from headrace import FrameLoader, UniformFrames

BATCH_SIZE, BATCHES = 128, 6
NAIVE, AT_ONCE = "naive, lookahead=1", "1 GiB, its whole window at once"
WAYS: Mapping[str, Mapping[str, Any]] = {
    NAIVE: {"lookahead": 1},
    "256 MiB": {"memory_budget": "256MiB"},
    "1 GiB": {"memory_budget": "1GiB"},
    AT_ONCE: {"memory_budget": "1GiB"},
}
"""Name → options of the loader; the last variant starts with the final lookahead of the one before
it."""


def measure(
    *, media: Path = DEFAULT_ROOT, count: int = 12, repeats: int = 3
) -> Iterator[TimedResult]:
    """Prove and time one kind of media after the other.

    Args:
        media: their folder
        count: videos of each kind
        repeats: of each, in turn
    """
    rows = [row for kind in KINDS for row in measure_kind(kind, paths(media, kind, count), repeats)]
    made = origin(repeats=repeats, files=count, size=SIZE)
    yield TimedResult(provenance=made, rows=tuple(rows))


def measure_kind(kind: str, paths: Sequence[Path], repeats: int) -> list[Row]:
    """Return all variants, interleaved, after a check of their frames against the naive variant."""
    with loader(paths, WAYS["1 GiB"]) as wide:
        ways = {**WAYS, AT_ONCE: {**WAYS[AT_ONCE], "lookahead": wide.lookahead}}
    wanted = some_frames(paths, ways[NAIVE])
    rows = []
    for name, asked in ways.items():
        is_same = torch.equal(some_frames(paths, asked), wanted)
        rows.append(Row(name=name, kind=kind).failed(None if is_same else "its frames differ"))
    *_, rows = rounds(rows, lambda row: row.timed(time_loader(paths, ways[row.name])), repeats)
    return rows


def loader(paths: Sequence[Path], asked: Mapping[str, Any]) -> FrameLoader:
    """Return a loader that was never iterated, with known indexes."""
    return FrameLoader(
        paths, batch_size=BATCH_SIZE, size=SIZE, sampling=UniformFrames(seed=1), **asked
    )


def some_frames(paths: Sequence[Path], asked: Mapping[str, Any]) -> torch.Tensor:
    """Return the frames of the first batches, of some videos."""
    with loader(paths[:3], asked) as opened:
        return torch.cat([batch.frames for batch in islice(opened, 3)])


def time_loader(paths: Sequence[Path], asked: Mapping[str, Any]) -> Repeat:
    """Time one loader, from the request of its first batch."""
    with loader(paths, asked) as opened:
        began = perf_counter()
        ends = [perf_counter() for _ in islice(chain.from_iterable(repeat(opened)), BATCHES)]
        spent = cost(opened)
    first, last = ends[0] - began, ends[-1] - began
    frames = BATCH_SIZE * BATCHES
    return Repeat(first_seconds=first, wall_seconds=last, frames=frames, **spent)


def first_batch(result: TimedResult) -> str:
    """Return a line per kind of media and variant, compared with the first of its kind."""

    def beside_naive(row: Row) -> str:
        naive = result.row(NAIVE, row.kind) or row
        first, of_naive = (median(each.values("first_seconds")) for each in (row, naive))
        return f"{first / of_naive:.2f}"

    columns = {
        "media": lambda row: row.kind,
        "look-ahead": lambda row: row.name,
        "first batch": lambda row: f"{spread(row.values('first_seconds'), '.2f')} s",
        "÷ naive": beside_naive,
        "first six": lambda row: f"{spread(row.values('wall_seconds'), '.2f')} s",
    }
    notes = f"Median (min–max). {machine(result)}"
    return rendered(result.rows, columns, notes, labels=2)


BENCHMARK = Benchmark("first_batch", __doc__, measure, first_batch)

if __name__ == "__main__":
    BENCHMARK.main()
