"""How much time does profiling add to a step of a training loop, and to its first batch?

python -m benchmarks.bench_observe --repeats 2      # a first look
python -m benchmarks.bench_observe                  # the full run, about 5 minutes

The same loop runs plain and profiled, interleaved, in one process. It has a DataLoader of tensors,
and a step that trains a small model and then multiplies matrices a fixed number of times, so that a
plain step takes `--step-ms`. The time from the start of a script to its first batch is measured
with `python` and with `headrace profile`. The analysis at the end of a profile runs once and is not
timed.
"""

import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

import headrace
from benchmarks.kit import Benchmark, rounds
from benchmarks.markdown import rendered, spread
from benchmarks.record import Repeat, Row, TimedResult, origin, ratios
from benchmarks.worker import Meter, headrace_command
from headrace.measuring.interleaved import MedianRange

WORKERS = (0, 1)
"""Numbers of workers. With more processes than cores, scheduling would dominate."""
BATCH_SIZE = 8
SCRIPT = "a script"
"""Kind of the rows that time a whole script."""
_FIRST_BATCH = """
from time import perf_counter
print(perf_counter(), flush=True)
import torch
from torch.utils.data import DataLoader, TensorDataset
for batch in DataLoader(TensorDataset(torch.zeros(64, 16)), batch_size=8):
    print(perf_counter(), flush=True)
"""
"""Script that prints `perf_counter`, shared by all processes, at its start and at each batch."""


def measure(*, steps: int = 100, step_ms: float = 5.0, repeats: int = 60) -> Iterator[TimedResult]:
    """Time the plain and the profiled loop with each number of workers, and both commands.

    Args:
        steps: steps per repeat
        step_ms: milliseconds of a plain step
        repeats: repeats per variant
    """
    torch.set_num_threads(1)
    provenance = origin(steps=steps, step_ms=step_ms, repeats=repeats)
    step = build_step(step_ms / 1e3)
    rows = [row for worker in WORKERS for row in contest(worker, steps, step, repeats)]
    rows += contest_scripts(-(-repeats // 6))
    yield TimedResult(provenance=provenance, rows=tuple(rows))


def build_step(seconds: float) -> Callable[..., None]:
    """Return a step that trains a small model on a batch, then computes until `seconds` are over.

    Its second argument is a factor of `seconds`, by default 1.
    """
    layers = [torch.nn.Linear(16, 16) for _ in range(4)]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    matrix, training_seconds, product_seconds = torch.ones(64, 64), seconds, 1.0

    def step(batch: torch.Tensor, times: float = 1.0) -> None:
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
        for _ in range(round((times * seconds - training_seconds) / product_seconds)):
            matrix @ matrix

    def timed(work: Callable[[], object]) -> float:
        began = perf_counter()
        for _ in range(200):
            work()
        return (perf_counter() - began) / 200

    batch = torch.zeros(BATCH_SIZE, 16)
    training_seconds, product_seconds = (
        median(timed(work) for _ in range(5))
        for work in (lambda: step(batch), lambda: matrix @ matrix)
    )
    return step


def contest(workers: int, steps: int, step: Callable[..., None], repeats: int) -> list[Row]:
    """Return the rows of both variants; repeats are interleaved, and the first is left out."""
    dataset = TensorDataset(torch.zeros(steps * BATCH_SIZE, 16))
    loader = DataLoader(dataset, batch_size=BATCH_SIZE, num_workers=workers)

    def take(row: Row) -> Row:
        """Time one epoch, from its first batch to its end."""
        meter = Meter()
        if row.name == "observed":
            with headrace.profile_loader(loader, on_verdict=None) as profiled:
                seconds = loop(profiled, step)
        else:
            seconds = loop(loader, step)
        times: dict[str, Any] = {**meter.read(), "wall_seconds": seconds, "frames": steps}
        return row.timed(Repeat(**times))

    rows = [Row(name=name, kind=f"num_workers={workers}") for name in ("plain", "observed")]
    *_, rows = rounds(rows, take, 1 + repeats)
    return [row.without_first() for row in rows]


def loop(batches: Iterable[Any], step: Callable[..., None]) -> float:
    """Return the seconds from the first batch to the end."""
    began = None
    for (batch,) in batches:
        began = perf_counter() if began is None else began
        step(batch)
    return perf_counter() - (began or perf_counter())


def contest_scripts(repeats: int) -> list[Row]:
    """Return the times to the start of a script, and from there to its first batch."""
    with TemporaryDirectory() as folder:
        script, loops = Path(folder) / "train.py", str(Path(folder) / "loops.json")
        script.write_text(_FIRST_BATCH)
        plain = [sys.executable, str(script)]
        observed = headrace_command("profile", "--json", loops, "--", *plain)
        commands = {"plain": plain, "observed": observed}

        def take(row: Row) -> Row:
            began = perf_counter()
            run = subprocess.run(commands[row.name], capture_output=True, text=True, check=True)
            wall, (start, first, *_) = perf_counter() - began, map(float, run.stdout.split())
            times: Any = {"open_seconds": start - began, "first_seconds": first - start}
            return row.timed(Repeat(wall_seconds=wall, **times))

        *_, rows = rounds([Row(name=name, kind=SCRIPT) for name in commands], take, 1 + repeats)
    return [row.without_first() for row in rows]


def cost(
    result: TimedResult, name: str = "observed", kind: str = "", field: str = "wall_seconds"
) -> MedianRange:
    """Return the step time of a variant ÷ that of the first variant of its kind."""
    plain = next(row for row in result.rows if row.kind == kind)
    return MedianRange.of(ratios(result.row(name, kind), plain, field))


def costs(result: TimedResult) -> dict[str, MedianRange]:
    """Return the relative step time for each number of workers."""
    kinds = dict.fromkeys(row.kind for row in result.rows if row.kind != SCRIPT)
    return {kind: cost(result, kind=kind) for kind in kinds}


def cost_table(shares: Mapping[str, MedianRange], *notes: str, digits: int = 1) -> str:
    """Return a line per relative step time, as its difference from 1."""
    form = f"+.{digits}f"
    return rendered(
        shares.items(),
        {
            "variant": lambda cost: cost[0],
            "median": lambda cost: f"{100 * (cost[1].median - 1):{form}} %",
            "min": lambda cost: f"{100 * (cost[1].lowest - 1):{form}} %",
            "max": lambda cost: f"{100 * (cost[1].highest - 1):{form}} %",
        },
        *notes,
    )


def first_batch(result: TimedResult) -> str:
    """Return a sentence on the first batch of a script; empty: not measured."""
    plain, observed = (result.row(name, SCRIPT) for name in ("plain", "observed"))
    if plain is None or observed is None:
        return ""
    start, first = (
        [1e3 * (b - a) for a, b in zip(plain.values(name), observed.values(name), strict=True)]
        for name in ("open_seconds", "first_seconds")
    )
    return (
        f"Under `headrace profile`, a script starts {median(start):.0f} ms later; its first batch "
        f"takes another {spread(first, '.0f')} ms."
    )


def text(result: TimedResult) -> str:
    """Return a line per number of workers, and a sentence on the first batch."""
    return cost_table(costs(result), first_batch(result), digits=2)


BENCHMARK = Benchmark("observe", __doc__, measure, text)

if __name__ == "__main__":
    BENCHMARK.main()
