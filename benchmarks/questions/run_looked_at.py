"""How long does a step of a run take, recorded and looked at in different ways, turn by turn?"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import psutil

from benchmarks.resources import versions
from headrace import open_index
from headrace.extraction.frames import FrameReader
from headrace.models.load import load_classifier
from headrace.models.model import Model
from headrace.models.results import Labels
from headrace.preprocess.levels import build_preprocess
from headrace.runs.options import (
    ComputeOptions,
    InputOptions,
    MarkOptions,
    OutputOptions,
    RunOptions,
)
from headrace.runs.run import Runner
from headrace.runs.stages import Carriers, stages_of
from headrace.runtime.pipeline import Pipeline
from headrace.runtime.stage import Stage
from headrace.sinks.predictions import PredictionLines
from headrace.video.stream_index import StreamIndex

PACKAGES = ("headrace", "torch", "nvtx")
MODEL = "squeezenet1_1"
WARM_UP = 2
"""Steps that do not count."""
EMPTY_STEPS = 50
"""For each step of a run."""


def answer(
    *, paths: list[str], ways: list[str], turns: int, batch_size: int, steps: int, **_: Any
) -> dict[str, Any]:
    """Time `steps` steps of each way in each turn, in one process; the first one changes.

    `bare` is the pipeline of a run with nothing recorded; the others are runs: `recorded`, with
    ranges (`nvtx`), or with all its steps in a trace (`trace`). Also: what a step costs where the
    stages do nothing.
    """
    index = open_index(paths[0])
    model = load_classifier(MODEL, "none")
    go = partial(_seconds, index, model, batch_size, steps)
    for way in ways:
        go(way)  # so that none pays for what is done once
    found: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    for turn in range(turns):
        for place in range(len(ways)):
            way = ways[(turn + place) % len(ways)]
            found[way].append(go(way))
    return {
        "turns": found,
        "empty_step_seconds": [_empty(steps * EMPTY_STEPS) for _ in range(turns)],
        "versions": versions(PACKAGES),
    }


class _Watch:
    """Notes when the step after the warm-up came out, and when the last one did."""

    def __init__(self) -> None:
        self.steps = 0
        self._process = psutil.Process()
        self._at: list[tuple[float, float]] = []

    def step(self, _: object = None) -> None:
        """Hear of a step."""
        self.steps += 1
        if self.steps >= WARM_UP:
            times = self._process.cpu_times()
            self._at = [*self._at[:1], (perf_counter(), times.user + times.system)]

    def read(self) -> dict[str, float]:
        """Return seconds of one step, by the wall and of CPU time."""
        (began, cpu_began), (ended, cpu_ended) = self._at
        counted = self.steps - WARM_UP
        return {"wall": (ended - began) / counted, "cpu": (cpu_ended - cpu_began) / counted}


def _seconds(
    index: StreamIndex, model: Model[Labels], batch_size: int, steps: int, way: str
) -> dict[str, float]:
    watch = _Watch()
    with TemporaryDirectory() as folder:
        if way == "bare":
            for _ in _bare(index, model, batch_size, steps, Path(folder)):
                watch.step()
            return watch.read()
        marks = {
            "recorded": MarkOptions(),
            "nvtx": MarkOptions(nvtx=True),
            "trace": MarkOptions(trace=True, trace_steps=steps),
        }
        runner = Runner(
            options=RunOptions(
                input=InputOptions(sources=(str(index.source),), max_steps=steps),
                compute=ComputeOptions(batch_size=batch_size),
                output=OutputOptions(out=Path(folder), video=False),
                marks=marks[way],
            ),
            indexes=(index,),
            model=model,
        )
        # Without what is tried after a run.
        session, _ = runner._attempt(watch.step)
        assert session.outcome == "complete", session.error
    return watch.read()


def _bare(
    index: StreamIndex, model: Model[Labels], batch_size: int, steps: int, folder: Path
) -> Iterator[object]:
    sink = PredictionLines(folder, [str(index.source)])
    stages = stages_of(build_preprocess("medium", model.input), Carriers(), model, [sink])
    reader = FrameReader([index], batch_size=batch_size, max_batches=steps)
    with Pipeline(source=reader, stages=stages).run() as run:
        yield from run
    sink.close()


def _empty(steps: int) -> float:
    names: Sequence[str] = ("preprocess", "model", "sink")
    same: Callable[[int], int] = lambda value: value  # noqa: E731
    stages = [Stage(name=name, function=same) for name in names]
    began = perf_counter()
    with Pipeline(source=range(steps), stages=stages).run() as run:
        for _ in run:
            pass
    return (perf_counter() - began) / steps
