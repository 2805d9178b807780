"""What does it cost a step of a run that it is recorded, marked for NVTX, or traced?

python -m benchmarks.bench_overhead --turns 3 --steps 20    # a first look
python -m benchmarks.bench_overhead                         # a record that is kept

`bare` are the stages of `headrace run` with nothing recorded; `recorded` is the run as it is;
`nvtx` makes ranges, with no tool that listens; `trace` has every step in its trace. All take their
turns in one process on the same frames; the figure is the median over the turns of a step's time
to that of `bare` in the same turn. Beside it: what a step costs whose stages do nothing, which is
all that the runtime adds. A trace is written when a run is over, which is not in its steps.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import psutil

from benchmarks.bench_observe import cost, cost_table, costs, first_batch
from benchmarks.kit import CORES, Benchmark
from benchmarks.markdown import machine
from benchmarks.media import DEFAULT_ROOT, paths, recipe
from benchmarks.record import Row, TimedResult, origin
from benchmarks.worker import ask_worker, versions
from headrace import FrameReader, StreamIndex, open_index
from headrace.models.load import load_classifier
from headrace.models.model import Model
from headrace.models.results import Labels
from headrace.preprocess.levels import build_preprocess
from headrace.runs import run_options as runs
from headrace.runs.file_run import Runner
from headrace.runs.run_inputs import RunInputs
from headrace.runs.run_stages import Transfers, stages_of
from headrace.runtime.pipeline import Pipeline
from headrace.runtime.stage import Stage
from headrace.sinks.result_rows import open_predictions

WAYS = {
    "bare": "a run without a record",
    "recorded": "a run, recorded as always",
    "nvtx": "the same with NVTX ranges, nobody listening",
    "trace": "the same with every step in its trace",
}
_COSTLY = list(WAYS)[1:]


class OverheadResult(TimedResult):
    """All variants on one video."""

    empty_step_seconds: tuple[float, ...]
    """Time of a step of three empty stages, mean over one repetition."""


def measure(
    *,
    media: Path = DEFAULT_ROOT,
    video: Path | None = None,
    turns: int = 15,
    steps: int = 70,
    batch_size: int = 4,
) -> Iterator[OverheadResult]:
    """Time all variants in one process.

    Args:
        media: their folder
        video: another video than the first of them
        turns: of all variants
        steps: of a run
        batch_size: frames in a step
    """
    said = {"turns": turns, "steps": steps, "batch_size": batch_size}
    path = str((video or paths(media, "web", 1)[0]).resolve())
    asked = {"case": "bench_overhead", "cores": CORES, "path": path, "ways": list(WAYS)}
    answer = ask_worker({**asked, **said})
    yield OverheadResult(
        provenance=origin(**said),
        media={"recipe": recipe(), "versions": answer["versions"]},
        rows=tuple(Row(name=way, repeats=answer["turns"][way]) for way in WAYS),
        empty_step_seconds=tuple(answer["empty_step_seconds"]),
    )


def render(result: OverheadResult) -> str:
    """Return two lines per variant, of wall and of CPU time, and a note on the runtime."""
    bare = median(result.rows[0].values("wall_seconds"))
    empty = median(result.empty_step_seconds)
    fields = {"a step": "wall_seconds", "its CPU time": "cpu_seconds"}
    shares = {f"{w}, {of}": cost(result, w, "", fields[of]) for w in _COSTLY for of in fields}
    note = f"bare: {bare * 1e3:.2f} ms a step; the runtime: {empty * 1e6:.0f} µs a step, "
    return cost_table(shares, f"{note}{empty / bare:.2%} of it")


PACKAGES = ("headrace", "torch", "nvtx")
MODEL = "squeezenet1_1"
WARM_UP = 2
"""Uncounted steps."""
EMPTY_STEPS = 50
"""Empty steps per step of a run."""


def answer(
    *, path: str, ways: Sequence[str], turns: int, batch_size: int, steps: int
) -> dict[str, Any]:
    """Time `steps` steps of each variant in each turn, in one process; the first one changes.

    `bare` is the pipeline of a run with nothing recorded; the others are runs: `recorded`, with
    ranges (`nvtx`), or with all its steps in a trace (`trace`). Also: what a step costs where the
    stages do nothing.
    """
    index = open_index(path)
    model = load_classifier(MODEL, "none")
    go = partial(_seconds, index, model, batch_size, steps)
    for way in ways:
        go(way)  # so that no variant includes one-time work
    answer: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    for turn in range(turns):
        for place in range(len(ways)):
            way = ways[(turn + place) % len(ways)]
            answer[way].append(go(way))
    empty = [_empty(steps * EMPTY_STEPS) for _ in range(turns)]
    return {"turns": answer, "empty_step_seconds": empty, "versions": versions(PACKAGES)}


def _seconds(
    index: StreamIndex, model: Model[Labels], batch_size: int, steps: int, way: str
) -> dict[str, float]:
    """Return wall and CPU seconds of one step."""
    process, at = psutil.Process(), list[tuple[float, float]]()

    def step(_: object = None) -> None:
        times = process.cpu_times()
        at.append((perf_counter(), times.user + times.system))

    marks: Any = {"nvtx": {"nvtx": True}, "trace": {"trace": True, "trace_steps": steps}}
    with TemporaryDirectory() as folder:
        if way == "bare":
            sink = open_predictions("jsonl", Path(folder), [str(index.source)], top_k=1)
            stages = stages_of(build_preprocess("medium", model.input), Transfers(), model, [sink])
            reader = FrameReader([index], batch_size=batch_size, max_batches=steps)
            with Pipeline(source=reader, stages=stages).run() as run:
                for _ in run:
                    step()
            sink.close()
        else:
            runner = Runner(
                options=runs.RunOptions(
                    input=runs.InputOptions(sources=(str(index.source),), max_steps=steps),
                    compute=runs.ComputeOptions(batch_size=batch_size),
                    output=runs.OutputOptions(out=Path(folder), video=False),
                    marks=runs.TracingOptions(**marks.get(way, {})),
                ),
                inputs=RunInputs(indexes=(index,)),
                model=model,
            )
            # Without the measurements after a run.
            session, _ = runner._run_once(step)
            assert session.outcome == "complete", session.error
    (began, cpu_began), *counted = at[WARM_UP - 1 :]
    ended, cpu_ended = counted[-1]
    spent = {"wall_seconds": ended - began, "cpu_seconds": cpu_ended - cpu_began}
    return {name: seconds / len(counted) for name, seconds in spent.items()}


def _empty(steps: int) -> float:
    names = ("preprocess", "model", "sink")
    stages = [Stage(name=name, function=int) for name in names]
    began = perf_counter()
    with Pipeline(source=range(steps), stages=stages).run() as run:
        for _ in run:
            pass
    return (perf_counter() - began) / steps


def measuring(overhead: OverheadResult, observe: TimedResult) -> str:
    """Return the cost per step of recording, NVTX ranges and traces, and of profiling a loop."""
    shares = {WAYS[way]: cost(overhead, way) for way in _COSTLY}
    shares |= {f"`observe`, {kind}": found for kind, found in costs(observe).items()}
    bare = median(overhead.rows[0].values("wall_seconds"))
    empty = median(overhead.empty_step_seconds)
    step_ms = observe.provenance.configuration["step_ms"]
    note = (
        f"Time of a step, where 1 is the same step unobserved: {1e3 * bare:.1f} ms of a run, "
        f"{step_ms:g} ms of a loop. A run of empty stages takes {1e6 * empty:.0f} µs a step: "
        f"{100 * empty / bare:.2g} % of this one. Medians over pairs of turns; what the least and "
        "the most differ by is the machine."
    )
    notes = filter(None, [note, first_batch(observe), machine(overhead)])
    return cost_table(shares, " ".join(notes))


BENCHMARK = Benchmark("overhead", __doc__, measure, render)

if __name__ == "__main__":
    BENCHMARK.main()
