"""Does a change bring the speedup that the findings predicted?

python -m benchmarks.bench_predictions --repeats 1      # a first look
python -m benchmarks.bench_predictions --only loaders   # one part; keeps the other
python -m benchmarks.bench_predictions                  # the full run, half an hour

Part `changes`: five changes of a run or a loop. The findings of the run or loop without the change
predict its speedup; then both are timed, interleaved. A run predicts from a short measurement with
the change, a loop only from the times of its steps. Part `loaders`: frames per second of loaders,
as `headrace plan` predicts them and as measured. The machine must be quiet. `bench_planted` has
loops with a planted bottleneck.
"""

import math
import subprocess
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Literal, TypeVar

import torch
from torch.utils.data import DataLoader, Dataset

import headrace
from benchmarks.kit import CORES, SIZE, Benchmark, task_of
from benchmarks.markdown import figure, machine, rendered
from benchmarks.media import DEFAULT_ROOT, paths
from benchmarks.record import Repeat, Result, origin
from benchmarks.worker import Ask, ask_worker, headrace_command
from headrace.planner.plan_config import PlanConfig
from headrace.planner.planner import plan
from headrace.profiling.findings.loop_simulation import QUIET, LoopLoad
from headrace.profiling.metrics import Metrics
from headrace.profiling.provenance import Provenance, Record
from headrace.profiling.session import Session

T = TypeVar("T")
CHANGES = {
    "--batch-size 8": "--batch-size 1",
    "--no-video": "--batch-size 4 --model-name shufflenet_v2_x0_5",
    "--prep-level medium": "--no-video --batch-size 4 --model-name shufflenet_v2_x0_5 "
    "--prep-level complex",
}
"""Change of a run, as an option → options without the change."""
STEPS = 60
"""Steps of a run."""
HOLDS = {"look-ahead": "rgb", "packed": "packed"}
"""Row of a plan → `hold` of the loader."""
CLOSE = 0.2
"""Max relative error of a good prediction."""


class Prediction(Record):
    """One change: its predicted speedup, and the measured speedup of each pair of repetitions."""

    change: str
    predicted: float | None = None
    """Predicted speedup; None: not predicted."""
    measured: tuple[float, ...]
    """Speedup of each pair of repetitions."""
    others_cpu_share: tuple[float | None, ...] = ()
    """CPU share of other programs in the first run of each pair; repeat a run above 0.05."""


class LoaderPrediction(Record):
    """One loader of random frames: predicted by `headrace plan`, and measured."""

    kind: str
    """Kind of videos."""
    memory: str
    strategy: str
    """Name of its row in the plan."""
    predicted: float
    """Frames per second."""
    predicted_amplification: float
    came: Repeat

    @property
    def error(self) -> float:
        """Predicted ÷ measured frames per second, minus 1."""
        return self.predicted / self.came.frames_per_second - 1


class LoadersResult(Record):
    """All loaders."""

    provenance: Provenance
    loaders: tuple[LoaderPrediction, ...]


class PredictionsResult(Result):
    """All changes, and the loaders with their own provenance."""

    changes: tuple[Prediction, ...] = ()
    loaders: LoadersResult | None = None


Run = Callable[[], Session]
Predict = Callable[[Session], float | None]
"""Session of a run without the change → predicted speedup."""


def measure(
    *,
    media: Path = DEFAULT_ROOT,
    repeats: int = 3,
    only: Literal["changes", "loaders"] | None = None,
    out: Path,
) -> Iterator[PredictionsResult]:
    """Predict and measure; `--only` keeps the other part of the result.

    Args:
        media: folder of the videos
        repeats: pairs of runs without and with each change
        only: part to measure, by default both
        out: path of the result
    """
    source = origin(repeats=repeats, steps=STEPS)
    result = PredictionsResult.load(out) if only else PredictionsResult(provenance=source)
    if only in (None, "changes"):
        [video] = paths(media, "web", 1)
        changes = tuple(printed(time_change(*case, repeats)) for case in cases(video))
        result = result.model_copy(update={"provenance": source, "changes": changes})
    if only in (None, "loaders"):
        loaders = LoadersResult(provenance=source, loaders=tuple(map(printed, time_loaders(media))))
        result = result.model_copy(update={"loaders": loaders})
    yield result


def time_loaders(
    media: Path,
    *,
    kinds: Sequence[str] = ("web", "cam"),
    count: int = 40,
    memories: Sequence[str] = ("128MiB", "256MiB", "1GiB"),
    seconds: float = 15.0,
    ask: Ask = ask_worker,
) -> Iterator[LoaderPrediction]:
    """Yield each loader, timed in its own process once its lookahead is full."""
    for kind, memory in product(kinds, memories):
        files = paths(media, kind, count)
        config = PlanConfig(memory_budget=memory, size=SIZE)
        rows = {row.name: row for row in plan([*map(str, files)], config, workers=CORES).strategies}
        for strategy, hold in HOLDS.items():
            options = {"size": SIZE, "batch_size": config.samples_per_batch, "hold": hold}
            options |= {"memory_budget": memory, "warm_up_seconds": math.inf, "seconds": seconds}
            options["whole"] = "window"
            yield LoaderPrediction(
                kind=kind,
                memory=memory,
                strategy=strategy,
                predicted=rows[strategy].frames_per_second,
                predicted_amplification=rows[strategy].amplification,
                came=Repeat(**ask(task_of("loading:load", files, CORES, **options))),
            )


def printed(value: T) -> T:
    """Print a value and return it."""
    print(value, flush=True)
    return value


def cases(video: Path) -> Iterator[tuple[str, Run, Run, Predict]]:
    """Yield five changes: three options of a run, and two numbers of workers of a DataLoader.

    A change is its name, functions that run without and with it, and one that predicts.
    """
    for name, plain in CHANGES.items():
        words = [str(video), *plain.split()]
        after = partial(run, [*words, *name.split()])  # the last value of a flag counts
        yield name, partial(run, words), after, partial(of_alternative, name)
    for workers in (1, 2):
        gain = partial(of_workers, workers)
        yield f"num_workers={workers}", partial(loop, 0), partial(loop, workers), gain


def run(words: Sequence[str]) -> Session:
    """Return the session of one `headrace run`."""
    with TemporaryDirectory() as folder:
        more = ("--weights", "none", "--max-steps", STEPS, "--out", f"{folder}/out", "--json")
        command = headrace_command("run", *words, *more)
        completed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return Session.model_validate_json(completed.stdout)


def of_alternative(name: str, session: Session) -> float | None:
    """Return the speedup that the run measured after it ended; None: not measured."""
    matches = [alternative for alternative in session.alternatives if alternative.option == name]
    return matches[0].baseline_ms_per_frame / matches[0].ms_per_frame if matches else None


def of_workers(workers: int, session: Session) -> float | None:
    """Return the speedup predicted by the loop simulation."""
    load = LoopLoad.of(session)
    return None if load is None else load.gain(workers=workers)


class Sums(Dataset[torch.Tensor]):
    """Items that take a few milliseconds of CPU time."""

    def __len__(self) -> int:
        return 800

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((3, 64, 64), float(sum(k * k for k in range(20_000)) % (index + 1)))


def loop(workers: int) -> Session:
    """Return the session of a loop whose step takes as much CPU time as loading its batch."""
    torch.set_num_threads(1)
    loader = DataLoader(Sums(), batch_size=8, num_workers=workers)
    with headrace.profile_loader(loader, on_verdict=None) as profiled:
        for _ in profiled:
            sum(k * k for k in range(160_000))
    return profiled.session


def time_change(name: str, before: Run, after: Run, predict: Predict, repeats: int) -> Prediction:
    """Return a change, timed in pairs; its prediction is the median over the runs without it."""
    pairs = [(before(), after()) for _ in range(repeats)]
    gains = [gain for first, _ in pairs if (gain := predict(first)) is not None]
    return Prediction(
        change=name,
        predicted=median(gains) if gains else None,
        measured=tuple(rate(second) / rate(first) for first, second in pairs),
        others_cpu_share=tuple(first.others_cpu_share for first, _ in pairs),
    )


def rate(session: Session) -> float:
    """Return the frames or samples per second after start-up."""
    if session.loader is not None:
        load = LoopLoad.of(session)
        assert load is not None
        return session.setup.batch_size / load.total_ms
    return Metrics.of(session).fps_mean or 0.0


def predictions(result: PredictionsResult) -> str:
    """Return a line per change: predicted and measured speedup."""
    text = rendered(
        result.changes,
        {
            "change": lambda row: f"`{row.change}`",
            "predicted": lambda row: figure(row.predicted) or "none",
            "measured": lambda row: f"{median(row.measured):.2f}",
            "min–max": lambda row: f"{min(row.measured):.2f}–{max(row.measured):.2f}",
        },
        "Speedup by the change, predicted from a run or loop without it. Measured: median and "
        f"min–max of the pairs. {machine(result)}",
    )
    return f"{text}\n\n{loaders(result.loaders)}" if result.loaders else text


def loaders(result: LoadersResult) -> str:
    """Return a line per loader: frames per second and amplification, predicted and measured."""
    close = sum(abs(row.error) <= CLOSE for row in result.loaders)
    notes = "Predicted by `headrace plan` before the loader ran: "
    notes += f"{close} of {len(result.loaders)} predictions are within {CLOSE:.0%} of the measured "
    notes += f"rate. {machine(result.provenance)}"
    shares = [row.came.others_share or 0.0 for row in result.loaders]
    if max(shares) > QUIET:
        notes += f" Other programs used up to {max(shares):.0%} of the CPU time."
    return rendered(
        result.loaders,
        {
            "videos": lambda row: row.kind,
            "memory": lambda row: row.memory,
            "hold": lambda row: HOLDS[row.strategy],
            "frames/s, predicted": lambda row: f"{row.predicted:,.0f}",
            "measured": lambda row: f"{row.came.frames_per_second:,.0f} ({row.error:+.0%})",
            "amplification, predicted": lambda row: f"{row.predicted_amplification:.2f}",
            "counted": lambda row: f"{(row.came.decoded or 0) / row.came.frames:.2f}",
        },
        notes,
    )


BENCHMARK = Benchmark("predictions", __doc__, measure, predictions)

if __name__ == "__main__":
    BENCHMARK.main()
