"""Gain of a thread per stage, and the limits set by stages and cores."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import fmean, median
from time import perf_counter
from typing import Any

from benchmarks.live import source as live
from benchmarks.live.figures import Part
from benchmarks.live.source import STAGES, Answered, OneThread
from benchmarks.markdown import rendered, spread
from benchmarks.record import origin
from benchmarks.worker import Ask, Meter
from headrace.profiling.provenance import Record
from headrace.runs.live.live_batches import ModelRunner

_CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
CASES: Mapping[str, Mapping[str, Any]] = {
    "a model that waits for another device": {"threads": 1, "waits": True},
    "a core for each stage": {"threads": 1, "waits": False},
    "a model that takes all cores": {"threads": _CORES, "waits": False},
}
_WAITED_SECONDS = 0.015


class OverlapPair(Record):
    """Sequential stages, then one thread per stage."""

    sequential_seconds: float
    sequential_cpu_seconds: float
    threaded_seconds: float
    stage_ms: dict[str, float]
    """Mean time of each stage, sequential."""
    threaded_stage_ms: dict[str, float]
    """The same with threads: longer if they compete for cores."""


class OverlapCase(Record):
    """One combination of stages."""

    name: str
    frames: int
    cores: int
    proved_frames: int
    """Frames with equal results of both variants, compared before timing."""
    pairs: tuple[OverlapPair, ...]

    @property
    def gains(self) -> list[float]:
        """Speed-up by threads, for each pair."""
        return [pair.sequential_seconds / pair.threaded_seconds for pair in self.pairs]

    @property
    def by_stages(self) -> list[float]:
        """sum(stage) / max(stage) of each pair: the gain of perfect overlap."""
        return [sum(p.stage_ms.values()) / max(p.stage_ms.values()) for p in self.pairs]

    @property
    def by_cores(self) -> list[float]:
        """Limit set by the cores: all busy with the same work."""
        return [self.cores * p.sequential_seconds / p.sequential_cpu_seconds for p in self.pairs]

    @property
    def is_of_stages(self) -> bool:
        """Whether stages, not cores, set the limit."""
        return median(self.by_stages) <= median(self.by_cores)

    @property
    def share(self) -> float:
        """Median of gain ÷ (sum(stage) / max(stage)); the bar is 0.9 if the cores allow it."""
        return median(g / b for g, b in zip(self.gains, self.by_stages, strict=True))


class Overlap(Part):
    """Gain of threads."""

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
    """Measure each case in its own process; see `answer`."""
    scale: dict[str, Any] = {"frames": frames, "proved": proved, "repeats": repeats}
    asked = {"case": "live.overlap", "clip": str(clip.resolve()), **scale}
    about: dict[str, Any] = {"frames": frames, "cores": _CORES, "proved_frames": proved}
    return Overlap(
        provenance=origin(**scale, clip=clip.name),
        cases=tuple(
            OverlapCase(name=name, pairs=ask({**asked, **case})["pairs"], **about)
            for name, case in cases.items()
        ),
    )


def answer(
    *, clip: str, threads: int, waits: bool, frames: int, proved: int, repeats: int
) -> dict[str, Any]:
    """Check that both variants give equal results, then time them, interleaved.

    Args:
        clip: Video, decoded by one thread at full speed.
        threads: Threads of one PyTorch operation.
        waits: Whether the model sleeps instead of computing, as for another device.
        frames: Timed frames per repeat.
        proved: Frames with compared results.
        repeats: Repeats of each variant.
    """
    at_least = _WAITED_SECONDS if waits else 0.0
    model = live.classifier(threads=threads, at_least=at_least, waits=waits)
    asked, bare, threaded = (OneThread(Path(clip)), model), live.one_after_another, live.in_threads
    if _timed(bare, *asked, proved)[2] != _timed(threaded, *asked, proved)[2]:
        raise ValueError("threads gave other answers than one thread")
    pairs = []
    for _ in range(repeats):
        meter = Meter()
        seconds, stage_ms, _ = _timed(bare, *asked, frames)
        cpu_seconds = meter.read()["cpu_seconds"]
        threaded_seconds, threaded_stage_ms, _ = _timed(threaded, *asked, frames)
        pair = {"sequential_seconds": seconds, "sequential_cpu_seconds": cpu_seconds}
        pair |= {"threaded_seconds": threaded_seconds}
        stages = {"stage_ms": stage_ms, "threaded_stage_ms": threaded_stage_ms}
        pairs.append({**pair, **stages})
    return {"pairs": pairs}


def _timed(
    variant: Callable[[OneThread, ModelRunner, int], Iterator[Answered]],
    source: OneThread,
    engine: ModelRunner,
    count: int,
) -> tuple[float, dict[str, float], list[tuple[int, str]]]:
    """Return seconds, mean milliseconds of each stage, and (number, result) of each frame."""
    began = perf_counter()
    result = list(variant(source, engine, count))
    seconds = perf_counter() - began
    stage_ms = {stage: fmean(each.spent[stage] for each in result) / 1e6 for stage in STAGES}
    return seconds, stage_ms, [(each.number, _plain(each.output)) for each in result]


def _plain(output: Any) -> str:
    names = getattr(output, "names", None)
    return repr(output) if names is None else repr((names[0], output.confidence[0]))


def overlap(result: Overlap) -> str:
    def stages(case: OverlapCase) -> str:
        names = case.pairs[0].stage_ms
        medians = (median(pair.stage_ms[name] for pair in case.pairs) for name in names)
        return " + ".join(f"{each:.1f}" for each in medians)

    pairs = len(result.cases[0].pairs) if result.cases else 0
    bound = [case for case in result.cases if case.is_of_stages]
    held = sum(case.share >= 0.9 for case in bound)
    return rendered(
        result.cases,
        {
            "stages": lambda case: case.name,
            "decode + preprocess + model, ms": stages,
            "gain of threads": lambda case: spread(case.gains, ".2f"),
            "sum / max of stages": lambda case: f"{median(case.by_stages):.2f}",
            "cores allow": lambda case: f"{median(case.by_cores):.2f}",
            "gain / stages' bound": lambda case: (
                f"{case.share:.2f}{'' if case.is_of_stages else '*'}"
            ),
        },
        f"One after another beside a thread for each stage, median of {pairs} pairs in turn "
        "(min–max). *Cores allow* is the cores times wall time over processor time, one "
        "after another: more no threads can gain. \\*: the cores bound it, not the stages. Within "
        f"10% of the stages' bound where the cores allow it: {held} of {len(bound)}.",
        result.where,
    )
