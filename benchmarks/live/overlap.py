"""What a thread for each stage gains, beside what its stages and the cores allow."""

import os
from collections.abc import Callable, Mapping
from contextlib import closing
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.live.figures import Part
from benchmarks.live.source import Net, OneThread
from benchmarks.markdown import spread, with_notes
from benchmarks.worker import Ask, Meter
from headrace.live.overload import Overload
from headrace.profiling.provenance import Record
from headrace.runs.live.flow import LiveFlow, LivePlan
from headrace.runs.live.live_batches import answers_of
from headrace.runtime.waiter import Waiter

_CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
CASES: Mapping[str, Mapping[str, Any]] = {
    "a model that waits for another device": {"threads": 1, "waits": True},
    "a core for each stage": {"threads": 1, "waits": False},
    "a model that takes all cores": {"threads": _CORES, "waits": False},
}
_WAITED_SECONDS = 0.015
_STAGES = ("decode", "preprocess", "model")


class OverlapPair(Record):
    """The stages one after another, then each in a thread of its own."""

    sequential_seconds: float
    sequential_cpu_seconds: float
    threaded_seconds: float
    stage_ms: dict[str, float]
    """Mean of each stage, one after another."""
    threaded_stage_ms: dict[str, float]
    """The same with threads: longer where they take each other's cores."""


class OverlapCase(Record):
    """One choice of stages."""

    name: str
    frames: int
    cores: int
    proved_frames: int
    """That both ways gave the same answers for, before anything was timed."""
    pairs: tuple[OverlapPair, ...]

    @property
    def gains(self) -> list[float]:
        """How many times as fast the threads were, in each pair."""
        return [pair.sequential_seconds / pair.threaded_seconds for pair in self.pairs]

    @property
    def by_stages(self) -> list[float]:
        """sum(stage) / max(stage) of each pair: no overlap can gain more."""
        return [sum(p.stage_ms.values()) / max(p.stage_ms.values()) for p in self.pairs]

    @property
    def by_cores(self) -> list[float]:
        """What the cores allow: all of them busy with the same work."""
        return [self.cores * p.sequential_seconds / p.sequential_cpu_seconds for p in self.pairs]

    @property
    def is_of_stages(self) -> bool:
        """The cores allow what the stages do."""
        return median(self.by_stages) <= median(self.by_cores)

    @property
    def share(self) -> float:
        """Median of gain / sum(stage)/max(stage); the bar is 0.9 where the cores allow it."""
        return median(g / b for g, b in zip(self.gains, self.by_stages, strict=True))


class Overlap(Part):
    """What threads gain."""

    cases: tuple[OverlapCase, ...]


def measure_overlap(
    clip: Path,
    ask: Ask,
    *,
    cases: Mapping[str, Mapping[str, Any]] = CASES,
    frames: int = 100,
    proved: int = 20,
    repeats: int = 5,
) -> Overlap:
    """Measure each case in a process of its own; see `answer`."""
    common = {"case": "live.overlap", "frames": frames, "proved": proved, "repeats": repeats}
    fields, answers = Overlap.measure(clip, common, cases, ask)
    about = {"frames": frames, "cores": _CORES, "proved_frames": proved}
    found = (
        OverlapCase(name=name, pairs=answer["pairs"], **about) for name, answer in answers.items()
    )
    return Overlap(**fields, cases=tuple(found))


def answer(
    *, clip: str, threads: int, waits: bool, frames: int, proved: int, repeats: int
) -> dict[str, Any]:
    """Prove that both ways give the same answers, then time them in turn.

    Args:
        clip: A video, decoded by one thread as fast as it goes.
        threads: Of one operation of PyTorch.
        waits: The model computes nothing and waits, as for another device.
        frames: Timed in each repeat.
        proved: Frames whose answers are compared.
        repeats: Of each way.
    """
    net = Net(threads=threads, at_least=_WAITED_SECONDS if waits else 0.0, waits=waits)
    source = OneThread(Path(clip))
    if _sequential(source, net, proved)[2] != _threaded(source, net, proved)[2]:
        raise ValueError("threads gave other answers than one thread")
    total, pairs = Meter(), []
    for _ in range(repeats):
        meter = Meter()
        seconds, stage_ms, _ = _sequential(source, net, frames)
        cpu_seconds = meter.read()["cpu_seconds"]
        threaded_seconds, threaded_stage_ms, _ = _threaded(source, net, frames)
        pair = OverlapPair(
            sequential_seconds=seconds,
            sequential_cpu_seconds=cpu_seconds,
            threaded_seconds=threaded_seconds,
            stage_ms=stage_ms,
            threaded_stage_ms=threaded_stage_ms,
        )
        pairs.append(pair.model_dump())
    return {"pairs": pairs, "meter": total.read()}


_Run = tuple[float, dict[str, float], list[Any]]
"""Seconds, milliseconds of each stage in the mean, and (number, answer) of each frame."""


def _sequential(source: OneThread, net: Net, count: int) -> _Run:
    spent = dict.fromkeys(_STAGES, 0.0)

    def timed(stage: str, work: Callable[[Any], Any], value: Any) -> Any:
        began = perf_counter()
        found = work(value)
        spent[stage] += perf_counter() - began
        return found

    answers = []
    began = perf_counter()
    with closing(source.frames(0, Waiter())) as frames:
        for _ in range(count):
            frame = timed("decode", next, frames)
            batch = timed("preprocess", net.prepare, np.stack([frame.pixels]))
            output = timed("model", net.run, batch)
            answers.append((frame.number, _plain(answers_of(output, 1)[0])))
        seconds = perf_counter() - began
    return seconds, _each(spent, count), answers


def _threaded(source: OneThread, net: Net, count: int) -> _Run:
    overload = Overload.chosen("every-frame", is_live=False)
    plan = LivePlan(sources=[source], engine=net.engine(), overload=overload)
    spent = dict.fromkeys(_STAGES, 0.0)
    answers = []
    began = perf_counter()
    with LiveFlow(plan) as flow:
        for item in islice(flow, count):
            [view] = item.value.gathered.views
            answers.append((view[-1].number, _plain(item.value.outputs[0])))
            for span in item.spans:
                if span.stage in spent:
                    spent[span.stage] += span.work_ns / 1e9
        seconds = perf_counter() - began
    return seconds, _each(spent, count), answers


def _each(spent: dict[str, float], count: int) -> dict[str, float]:
    return {stage: 1e3 * seconds / count for stage, seconds in spent.items()}


def _plain(output: Any) -> str:
    names = getattr(output, "names", None)
    return repr(output) if names is None else repr((names[0], output.confidence[0]))


def overlap(found: Overlap) -> str:
    head = (
        *("stages", "decode + preprocess + model, ms", "gain of threads"),
        *("sum / max of stages", "cores allow", "gain / stages' bound"),
    )
    lines = [
        (
            case.name,
            " + ".join(f"{_stage(case, name):.1f}" for name in case.pairs[0].stage_ms),
            spread(case.gains, ".2f"),
            f"{median(case.by_stages):.2f}",
            f"{median(case.by_cores):.2f}",
            f"{case.share:.2f}" if case.is_of_stages else f"{case.share:.2f}*",
        )
        for case in found.cases
    ]
    pairs = len(found.cases[0].pairs) if found.cases else 0
    bound = [case for case in found.cases if case.is_of_stages]
    held = sum(case.share >= 0.9 for case in bound)
    notes = [
        f"One after another beside a thread for each stage, median of {pairs} pairs in turn "
        "(lowest–highest). *Cores allow* is the cores times wall time over processor time, one "
        "after another: more no threads can gain. \\*: the cores bound it, not the stages. Within "
        f"10% of the stages' bound where the cores allow it: {held} of {len(bound)}.",
        found.where,
    ]
    return with_notes(head, lines, notes)


def _stage(case: OverlapCase, name: str) -> float:
    return median(pair.stage_ms[name] for pair in case.pairs)
