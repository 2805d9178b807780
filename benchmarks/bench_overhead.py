"""How much time do recording, NVTX ranges and a trace add to a step of a run?

python -m benchmarks.bench_overhead --turns 3 --steps 20    # a first look
python -m benchmarks.bench_overhead                         # the full run

`bare` runs the stages of `headrace run` without a record. `recorded` is a default run, `nvtx` a run
with NVTX ranges but without a profiler, and `trace` a run that traces every step. All variants run
interleaved in one process on the same frames. The figure is the time of a step ÷ that of `bare` in
the same round, median over the rounds. The time of a step with empty stages is what the runtime
adds. Writing the trace after the run is not included.
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

VARIANTS = {
    "bare": "a run without a record",
    "recorded": "a run with its default record",
    "nvtx": "the same with NVTX ranges, no profiler attached",
    "trace": "the same with a trace of every step",
}
_COSTLY = list(VARIANTS)[1:]


class OverheadResult(TimedResult):
    """All variants on one video."""

    empty_step_seconds: tuple[float, ...]
    """Time of a step of three empty stages, one mean per repetition."""


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
        media: folder of the videos
        video: video to read, by default the first in --media
        turns: repeats per variant
        steps: steps per run
        batch_size: frames in a step
    """
    parameters = {"turns": turns, "steps": steps, "batch_size": batch_size}
    path = str((video or paths(media, "web", 1)[0]).resolve())
    request = {"case": "bench_overhead", "cores": CORES, "path": path, "variants": list(VARIANTS)}
    answer = ask_worker({**request, **parameters})
    yield OverheadResult(
        provenance=origin(**parameters),
        media={"recipe": recipe(), "versions": answer["versions"]},
        rows=tuple(Row(name=name, repeats=answer["turns"][name]) for name in VARIANTS),
        empty_step_seconds=tuple(answer["empty_step_seconds"]),
    )


def render(result: OverheadResult) -> str:
    """Return two lines per variant, for wall and CPU time, and a note on the runtime."""
    bare = median(result.rows[0].values("wall_seconds"))
    empty = median(result.empty_step_seconds)
    fields = {"step time": "wall_seconds", "CPU time": "cpu_seconds"}
    shares = {f"{v}, {of}": cost(result, v, "", fields[of]) for v in _COSTLY for of in fields}
    note = f"bare: {bare * 1e3:.2f} ms a step; empty stages: {empty * 1e6:.0f} µs a step, "
    return cost_table(shares, f"{note}{empty / bare:.2%} of bare")


PACKAGES = ("headrace", "torch", "nvtx")
MODEL = "squeezenet1_1"
WARM_UP = 2
"""Untimed steps at the start."""
EMPTY_STEPS = 50
"""Steps with empty stages per step of a run."""


def answer(
    *, path: str, variants: Sequence[str], turns: int, batch_size: int, steps: int
) -> dict[str, Any]:
    """Time all variants, interleaved, and steps with empty stages.

    Each round starts with another variant.
    """
    index = open_index(path)
    model = load_classifier(MODEL, "none")
    run = partial(_seconds, index, model, batch_size, steps)
    for variant in variants:
        run(variant)  # so that no timed run includes one-time work
    times: dict[str, list[dict[str, float]]] = {variant: [] for variant in variants}
    for turn in range(turns):
        for offset in range(len(variants)):
            variant = variants[(turn + offset) % len(variants)]
            times[variant].append(run(variant))
    empty = [_empty(steps * EMPTY_STEPS) for _ in range(turns)]
    return {"turns": times, "empty_step_seconds": empty, "versions": versions(PACKAGES)}


def _seconds(
    index: StreamIndex, model: Model[Labels], batch_size: int, steps: int, variant: str
) -> dict[str, float]:
    """Return wall and CPU seconds of one step."""
    process, ends = psutil.Process(), list[tuple[float, float]]()

    def step(_: object = None) -> None:
        times = process.cpu_times()
        ends.append((perf_counter(), times.user + times.system))

    marks: Any = {"nvtx": {"nvtx": True}, "trace": {"trace": True, "trace_steps": steps}}
    with TemporaryDirectory() as folder:
        if variant == "bare":
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
                    marks=runs.TracingOptions(**marks.get(variant, {})),
                ),
                inputs=RunInputs(indexes=(index,)),
                model=model,
            )
            # `run` would also measure alternatives after the run.
            session, _ = runner._run_once(step)
            assert session.outcome == "complete", session.error
    (began, cpu_began), *timed = ends[WARM_UP - 1 :]
    ended, cpu_ended = timed[-1]
    sums = {"wall_seconds": ended - began, "cpu_seconds": cpu_ended - cpu_began}
    return {name: seconds / len(timed) for name, seconds in sums.items()}


def _empty(steps: int) -> float:
    names = ("preprocess", "model", "sink")
    stages = [Stage(name=name, function=int) for name in names]
    began = perf_counter()
    with Pipeline(source=range(steps), stages=stages).run() as run:
        for _ in run:
            pass
    return (perf_counter() - began) / steps


def measuring(overhead: OverheadResult, observe: TimedResult) -> str:
    """Return the added time per step of recording, NVTX ranges, traces, and profiling a loop."""
    shares = {VARIANTS[name]: cost(overhead, name) for name in _COSTLY}
    shares |= {f"a profiled loop, {kind}": share for kind, share in costs(observe).items()}
    bare = median(overhead.rows[0].values("wall_seconds"))
    empty = median(overhead.empty_step_seconds)
    step_ms = observe.provenance.configuration["step_ms"]
    note = (
        f"Added time, relative to the same step without recording: {1e3 * bare:.1f} ms in the run, "
        f"{step_ms:g} ms in the loop. With empty stages, a step of a run takes {1e6 * empty:.0f} "
        f"µs, {100 * empty / bare:.2g} % of this step. Median, min and max over interleaved pairs; "
        "the range from min to max is noise of the machine."
    )
    notes = filter(None, [note, first_batch(observe), machine(overhead)])
    return cost_table(shares, " ".join(notes))


BENCHMARK = Benchmark("overhead", __doc__, measure, render)

if __name__ == "__main__":
    BENCHMARK.main()
