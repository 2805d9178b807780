"""What does observing a training loop cost it, as a share of a step?

python -m benchmarks.bench_observe --repeats 2      # a first look
python -m benchmarks.bench_observe                  # a record that is kept, about three minutes

The same loop is run plain and observed, in turns, in one process: a DataLoader of tensors, and a
step of matrix products that takes `--step-ms`. What observing does at the end of the block (asking
for the machine, reasoning about the steps) is timed apart: it is paid once.
"""

import argparse
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import torch
from torch.utils.data import DataLoader, TensorDataset

import headrace
from benchmarks.record import RESULTS, Repeat, Row, TimedResult, origin
from headrace.profiling.usage import ProcessorShare

WORKERS = (0, 1)
"""With more processes than cores, their turns on a core would be what is measured."""
BATCH_SIZE = 8


def main() -> None:
    """Time, keep, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400, help="of each timing")
    parser.add_argument("--step-ms", type=float, default=5.0, help="what the loop does with each")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--out", type=Path, default=RESULTS / "observe.json")
    options = parser.parse_args()

    torch.set_num_threads(1)
    rows = [
        row
        for workers in WORKERS
        for row in contest(workers, options.steps, options.step_ms / 1e3, options.repeats)
    ]
    parameters = {"steps": options.steps, "step_ms": options.step_ms, "repeats": options.repeats}
    result = TimedResult(provenance=origin(parameters), rows=tuple(rows))
    result.save(options.out)
    for workers in WORKERS:
        kind = f"num_workers={workers}"
        middle, least, greatest = (100 * (each - 1) for each in cost(result, kind))
        print(
            f"{kind}: observing takes {middle:+.2f} % of a step ({least:+.2f} to {greatest:+.2f})"
        )
    print(options.out)


def cost(result: TimedResult, kind: str) -> tuple[float, float, float]:
    """Return median, least and greatest of an observed step's time, where the plain one is 1."""
    plain, observed = (result.row(name, kind) for name in ("plain", "observed"))
    assert plain is not None
    assert observed is not None
    pairs = zip(plain.repeats, observed.repeats, strict=True)
    ratios = [after.wall_seconds / before.wall_seconds for before, after in pairs]
    return median(ratios), min(ratios), max(ratios)


def contest(workers: int, steps: int, step_seconds: float, repeats: int) -> list[Row]:
    """Both ways in turns, the first turn of each not counted."""
    dataset = TensorDataset(torch.zeros(steps * BATCH_SIZE, 16))
    loader = DataLoader(dataset, batch_size=BATCH_SIZE, num_workers=workers)
    found: dict[str, list[Repeat]] = {"plain": [], "observed": []}
    for turn in range(1 + repeats):
        for name, kept in found.items():
            repeat = timed(loader, steps, step_seconds, is_observed=name == "observed")
            kept += [repeat] if turn else []
    kind = f"num_workers={workers}"
    return [Row(name=name, kind=kind, repeats=tuple(kept)) for name, kept in found.items()]


def timed(
    loader: DataLoader[tuple[torch.Tensor, ...]],
    steps: int,
    step_seconds: float,
    *,
    is_observed: bool,
) -> Repeat:
    """One epoch, from its first batch to its end."""
    share, began_cpu = ProcessorShare(), process_time()
    if is_observed:
        with headrace.observe(loader, tell=None) as seen:
            seconds = loop(seen, step_seconds)
    else:
        seconds = loop(loader, step_seconds)
    others = share.of_others()
    cpu = process_time() - began_cpu
    return Repeat(
        wall_seconds=seconds,
        frames=steps,
        cpu_seconds=cpu,
        others_cpu_seconds=None if others is None else cpu * others / max(1e-9, 1 - others),
    )


def loop(batches: Iterable[object], step_seconds: float) -> float:
    """Seconds from the first batch to the end; a step is work until its time is over."""
    matrix = torch.ones(64, 64)
    began = None
    for _ in batches:
        begin = perf_counter()
        began = begin if began is None else began
        while perf_counter() - begin < step_seconds:
            matrix @ matrix
    return perf_counter() - (began or perf_counter())


if __name__ == "__main__":
    main()
