"""How old is a frame when its answer is there: in a bare loop, and in the live pipeline?"""

import zlib
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.live.net import Net
from benchmarks.live.source import OneThread
from benchmarks.resources import Meter
from headrace.live.overload import Overload
from headrace.runs.live.engine import Engine
from headrace.runs.live.flow import LiveFlow, LivePlan
from headrace.runtime.clock import SYSTEM_CLOCK
from headrace.runtime.waiter import Waiter

Times = tuple[float, float]
"""Milliseconds of one frame: its age, and the work of it."""


def answer(
    *, clip: str, rate: int, model: str, frames: int, proved: int, repeats: int
) -> dict[str, Any]:
    """Prove that both ways give the same frames, then time them in turn.

    Args:
        clip: A video.
        rate: Of its frames, a second.
        model: "mobilenet_v2"; "none" neither prepares nor computes.
        frames: Timed in each repeat.
        proved: Frames that are compared.
        repeats: Of each way.
    """
    engine = _idle() if model == "none" else Net(threads=1).engine()
    source = OneThread(Path(clip), rate)
    sums = _summing()
    bare_sums = [found for [found], _ in _bare(source, sums, proved)]
    pipeline_sums = [found for found, _ in _pipeline(source, sums, proved)]
    if bare_sums != pipeline_sums or len(bare_sums) != proved:
        raise ValueError("the pipeline gave other frames than the bare loop")
    meter = Meter()
    timed: dict[str, list[list[Times]]] = {"bare": [], "pipeline": []}
    for _ in range(repeats):
        timed["bare"].append([times for _, times in _bare(source, engine, frames)])
        timed["pipeline"].append([times for _, times in _pipeline(source, engine, frames)])
    return {**timed, "meter": meter.read()}


def _bare(source: OneThread, engine: Engine, count: int) -> Iterator[tuple[Any, Times]]:
    """One thread: decode, wait until the frame is due, stack, preprocess, run."""
    clock = SYSTEM_CLOCK
    with closing(source.frames(0, Waiter())) as frames:
        for frame in islice(frames, count):
            began_ns = clock.now_ns()
            output = engine.run(engine.prepare(np.stack([frame.pixels])))
            ended_ns = clock.now_ns()
            yield output, ((ended_ns - frame.arrived_ns) / 1e6, (ended_ns - began_ns) / 1e6)


def _pipeline(source: OneThread, engine: Engine, count: int) -> Iterator[tuple[Any, Times]]:
    """The stages of `headrace run`, as the consumer sees them."""
    overload = Overload.chosen("every-frame", is_live=True)
    plan = LivePlan(sources=[source], engine=engine, overload=overload)
    with LiveFlow(plan) as flow:
        for item in islice(flow, count):
            age_ns = SYSTEM_CLOCK.now_ns() - item.value.gathered.newest_ns
            work_ns = sum(span.work_ns for span in item.spans[1:])
            [output] = item.value.outputs
            yield output, (age_ns / 1e6, work_ns / 1e6)


def _idle() -> Engine:
    def prepare(pixels: NDArray[np.uint8]) -> Any:
        return pixels

    return Engine(prepare=prepare, run=lambda batch: [0])


def _summing() -> Engine:
    """A model that answers with the checksum of each picture."""

    def prepare(pixels: NDArray[np.uint8]) -> Any:
        return pixels

    return Engine(prepare=prepare, run=lambda batch: [zlib.crc32(each) for each in batch])
