"""What does observing a training loop cost it, as a share of a step?

python -m benchmarks.bench_observe --repeats 2      # a first look
python -m benchmarks.bench_observe                  # a record that is kept, about three minutes

The same loop is run plain and observed, in turns, in one process: a DataLoader of tensors, and a
step of matrix products that takes `--step-ms`. What observing does at the end of the block (asking
for the machine, reasoning about the steps) is timed apart: it is paid once.
"""

from collections.abc import Iterable, Iterator
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

import headrace
from benchmarks.kit import Benchmark, rounds
from benchmarks.record import Repeat, Row, TimedResult, origin, ratios
from benchmarks.worker import Meter

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


def cost(result: TimedResult, kind: str) -> tuple[float, float, float]:
    """Return median, min and max of an observed step's time ÷ the plain step's."""
    plain, observed = (result.row(name, kind) for name in ("plain", "observed"))
    shares = ratios(observed, plain, "wall_seconds")
    return median(shares), min(shares), max(shares)


def text(result: TimedResult) -> str:
    """Return the cost of observing, a line per number of workers."""
    lines = []
    for kind in dict.fromkeys(row.kind for row in result.rows):
        middle, least, greatest = (100 * (share - 1) for share in cost(result, kind))
        lines.append(
            f"{kind}: observing takes {middle:+.2f} % of a step ({least:+.2f} to {greatest:+.2f})"
        )
    return "\n".join(lines)


BENCHMARK = Benchmark("observe", __doc__, measure, text)

if __name__ == "__main__":
    BENCHMARK.main()
