"""How long does a FrameLoader take to its first batch of 128 random frames, and to its sixth?

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
NAIVE, AT_ONCE = "naive, lookahead=1", "1 GiB, full lookahead at once"
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    NAIVE: {"lookahead": 1},
    "256 MiB": {"memory_budget": "256MiB"},
    "1 GiB": {"memory_budget": "1GiB"},
    AT_ONCE: {"memory_budget": "1GiB"},
}
"""Name → options of the loader. The last variant starts with the lookahead that 1 GiB allows."""


def measure(
    *, media: Path = DEFAULT_ROOT, count: int = 12, repeats: int = 3
) -> Iterator[TimedResult]:
    """Compare frames and time all variants, for each kind of media.

    Args:
        media: folder of the videos
        count: videos per kind
        repeats: repeats per variant
    """
    rows = [row for kind in KINDS for row in measure_kind(kind, paths(media, kind, count), repeats)]
    provenance = origin(repeats=repeats, files=count, size=SIZE)
    yield TimedResult(provenance=provenance, rows=tuple(rows))


def measure_kind(kind: str, paths: Sequence[Path], repeats: int) -> list[Row]:
    """Return the rows of all variants, whose frames must equal those of the naive variant."""
    with loader(paths, VARIANTS["1 GiB"]) as wide:
        final = {**VARIANTS[AT_ONCE], "lookahead": wide.lookahead}
    variants = {**VARIANTS, AT_ONCE: final}
    expected = some_frames(paths, variants[NAIVE])
    rows = []
    for name, options in variants.items():
        is_equal = torch.equal(some_frames(paths, options), expected)
        rows.append(Row(name=name, kind=kind).failed(None if is_equal else "its frames differ"))
    *_, rows = rounds(rows, lambda row: row.timed(time_loader(paths, variants[row.name])), repeats)
    return rows


def loader(paths: Sequence[Path], options: Mapping[str, Any]) -> FrameLoader:
    """Return a new loader, not yet iterated; its indexes come from the index store."""
    return FrameLoader(
        paths, batch_size=BATCH_SIZE, size=SIZE, sampling=UniformFrames(seed=1), **options
    )


def some_frames(paths: Sequence[Path], options: Mapping[str, Any]) -> torch.Tensor:
    """Return the frames of the first three batches of the first three videos."""
    with loader(paths[:3], options) as batches:
        return torch.cat([batch.frames for batch in islice(batches, 3)])


def time_loader(paths: Sequence[Path], options: Mapping[str, Any]) -> Repeat:
    """Time the first batches of a loader, from the request of the first."""
    with loader(paths, options) as opened:
        began = perf_counter()
        ends = [perf_counter() for _ in islice(chain.from_iterable(repeat(opened)), BATCHES)]
        counts = cost(opened)
    first, last = ends[0] - began, ends[-1] - began
    frames = BATCH_SIZE * BATCHES
    return Repeat(first_seconds=first, wall_seconds=last, frames=frames, **counts)


def first_batch(result: TimedResult) -> str:
    """Return a line per kind of media and variant, compared with the naive variant."""

    def over_naive(row: Row) -> str:
        naive = result.row(NAIVE, row.kind) or row
        seconds, naive_seconds = (median(r.values("first_seconds")) for r in (row, naive))
        return f"{seconds / naive_seconds:.2f}"

    columns = {
        "media": lambda row: row.kind,
        "variant": lambda row: row.name,
        "first batch": lambda row: f"{spread(row.values('first_seconds'), '.2f')} s",
        "÷ naive": over_naive,
        "first six batches": lambda row: f"{spread(row.values('wall_seconds'), '.2f')} s",
    }
    notes = f"Median (min–max). {machine(result)}"
    return rendered(result.rows, columns, notes, labels=2)


BENCHMARK = Benchmark("first_batch", __doc__, measure, first_batch)

if __name__ == "__main__":
    BENCHMARK.main()
