"""What does observing a training loop cost it, as a share of a step?

python -m benchmarks.bench_observe --repeats 2      # a first look
python -m benchmarks.bench_observe                  # a record that is kept, about three minutes

The same loop is run plain and observed, in turns, in one process: a DataLoader of tensors, and a
step of matrix products that takes `--step-ms`. What observing does at the end of the block (asking
for the machine, reasoning about the steps) is timed apart: it is paid once.
"""

from collections.abc import Iterable, Iterator
from time import perf_counter
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

import headrace
from benchmarks.kit import Benchmark, rounds
from benchmarks.record import Repeat, Row, TimedResult, origin, ratios
from benchmarks.worker import Meter
from headrace.measuring.interleaved import MedianRange

WORKERS = (0, 1)
"""Numbers of workers; with more processes than cores, scheduling would dominate."""
BATCH_SIZE = 8


def measure(*, steps: int = 400, step_ms: float = 5.0, repeats: int = 15) -> Iterator[TimedResult]:
    """Time both with each number of workers.

    Args:
        steps: of each timing
        step_ms: what the loop does with each
        repeats: of each, in turn
    """
    torch.set_num_threads(1)
    made = origin(steps=steps, step_ms=step_ms, repeats=repeats)
    rows = [row for worker in WORKERS for row in contest(worker, steps, step_ms / 1e3, repeats)]
    yield TimedResult(provenance=made, rows=tuple(rows))


def contest(workers: int, steps: int, step_seconds: float, repeats: int) -> list[Row]:
    """Return both variants, interleaved, without the first repetition of each."""
    dataset = TensorDataset(torch.zeros(steps * BATCH_SIZE, 16))
    loader = DataLoader(dataset, batch_size=BATCH_SIZE, num_workers=workers)

    def take(row: Row) -> Row:
        """Time one epoch, from its first batch to its end."""
        meter = Meter()
        if row.name == "observed":
            with headrace.profile_loader(loader, tell=None) as seen:
                seconds = loop(seen, step_seconds)
        else:
            seconds = loop(loader, step_seconds)
        spent: dict[str, Any] = {**meter.read(), "wall_seconds": seconds, "frames": steps}
        return row.timed(Repeat(**spent))

    rows = [Row(name=name, kind=f"num_workers={workers}") for name in ("plain", "observed")]
    *_, rows = rounds(rows, take, 1 + repeats)
    return [row.without_first() for row in rows]


def loop(batches: Iterable[object], step_seconds: float) -> float:
    """Return the seconds from the first batch to the end; a step computes for its full time."""
    matrix = torch.ones(64, 64)
    began = None
    for _ in batches:
        begin = perf_counter()
        began = begin if began is None else began
        while perf_counter() - begin < step_seconds:
            matrix @ matrix
    return perf_counter() - (began or perf_counter())


def cost(
    result: TimedResult, name: str = "observed", kind: str = "", field: str = "wall_seconds"
) -> MedianRange:
    """Return the time of a variant's step ÷ that of the first variant of its kind."""
    plain = next(row for row in result.rows if row.kind == kind)
    return MedianRange.of(ratios(result.row(name, kind), plain, field))


def more(ratio: MedianRange, what: str, form: str = "+.2%") -> str:
    """Return what a ratio of times is above 1, in words."""
    middle, least, most = (n - 1 for n in (ratio.median, ratio.lowest, ratio.highest))
    return f"{middle:{form}} of {what} ({least:{form}} to {most:{form}})"


def text(result: TimedResult) -> str:
    """Return the cost of observing, a line per number of workers."""
    kinds = dict.fromkeys(row.kind for row in result.rows)
    return "\n".join(
        f"{kind}: observing takes {more(cost(result, kind=kind), 'a step')}" for kind in kinds
    )


BENCHMARK = Benchmark("observe", __doc__, measure, text)

if __name__ == "__main__":
    BENCHMARK.main()
