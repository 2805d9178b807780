"""The live pipeline with a thread per stage, compared with the same stages in one thread.

Cost: additional age of a frame at its result. Gain: speedup, with its bounds by stages and cores.
Before timing, both variants must give equal results.
"""

import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.live.figures import NAMES, Part, Quantiles
from benchmarks.live.source import STAGES, VARIANTS, OneThread, Variant, classifier
from benchmarks.markdown import figure, rendered, spread, yes
from benchmarks.record import origin
from benchmarks.worker import Ask, Meter
from headrace.profiling.provenance import Record
from headrace.runs.live.live_batches import ModelRunner

DEFINITION = (
    "The age of a frame runs from its due time until the consumer has its result. The added "
    "latency is its age in the pipeline (threads for source, preprocessing and model, with their "
    "queues) minus its age in a bare loop, which decodes, waits for the due time, stacks, "
    "preprocesses and runs the model in one thread. Ages are compared frame by frame, at a rate "
    "that both variants keep up with."
)
_CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
CASES: Mapping[str, Mapping[str, Any]] = {
    "a model that waits for another device": {"threads": 1, "waits": True},
    "a core for each stage": {"threads": 1, "waits": False},
    "a model that takes all cores": {"threads": _CORES, "waits": False},
}
_WAITED_SECONDS = 0.015


class OwnCostCase(Record):
    """One model."""

    model: str
    proved_frames: int
    """Frames of both variants that were compared bit for bit before timing."""
    bare_ms: Quantiles
    """Age of a frame at its result, in the bare loop."""
    pipeline_ms: Quantiles
    """The same in the pipeline."""
    own_ms: Quantiles
    """The difference, frame by frame."""
    stages_ms: Quantiles
    """Part of `own_ms`: additional time of the same work in the pipeline."""
    hand_over_ms: Quantiles
    """Part of `own_ms`: time between stages and to the consumer, minus the bare loop's delay."""
    repeats_p50_ms: tuple[float, ...]
    """Median of `own_ms` in each repeat; their spread is the machine's noise."""
    late_frames: int = 0
    """Frames that the bare loop had not finished when the next was due. It fell behind, so the
    differences mean little."""


class OwnCost(Part):
    """Cost of the pipeline per frame."""

    definition: str
    bar_ms: float = 1.0
    cases: tuple[OwnCostCase, ...]


class OverlapPair(Record):
    """Sequential stages, then one thread per stage."""

    sequential_seconds: float
    sequential_cpu_seconds: float
    threaded_seconds: float
    stage_ms: dict[str, float]
    """Mean time of each stage in the sequential run."""
    threaded_stage_ms: dict[str, float]
    """The same with threads, which is longer if they compete for cores."""


class OverlapCase(Record):
    """One combination of stages."""

    name: str
    frames: int
    cores: int
    proved_frames: int
    """Frames whose results were compared before timing."""
    pairs: tuple[OverlapPair, ...]

    @property
    def gains(self) -> list[float]:
        """Speedup by threads, for each pair."""
        return [pair.sequential_seconds / pair.threaded_seconds for pair in self.pairs]

    @property
    def by_stages(self) -> list[float]:
        """Speedup by perfect overlap, sum(stage) / max(stage), for each pair."""
        return [sum(p.stage_ms.values()) / max(p.stage_ms.values()) for p in self.pairs]

    @property
    def by_cores(self) -> list[float]:
        """Speedup with all cores busy on the same work, for each pair."""
        return [self.cores * p.sequential_seconds / p.sequential_cpu_seconds for p in self.pairs]

    @property
    def is_of_stages(self) -> bool:
        """Whether the bound by stages is the lower one."""
        return median(self.by_stages) <= median(self.by_cores)

    @property
    def share(self) -> float:
        """Median of speedup ÷ bound by stages; must be at least 0.9 if this bound is the lower."""
        return median(g / b for g, b in zip(self.gains, self.by_stages, strict=True))


class Overlap(Part):
    """Speedup by threads."""

    cases: tuple[OverlapCase, ...]


def measure_own_cost(
    clip: Path,
    ask: Ask,
    *,
    models: Sequence[str] = ("none", "mobilenet_v2"),
    rate: int = 15,
    frames: int = 60,
    proved: int = 30,
    repeats: int = 5,
) -> OwnCost:
    """Measure each model in its own process.

    Args:
        clip: Clip to show.
        ask: Sends a request to a worker process.
        models: "mobilenet_v2"; "none" neither preprocesses nor computes.
        rate: Frames per second, which a single thread can keep up with.
        frames: Timed frames per repeat.
        proved: Frames compared before timing.
        repeats: Repeats of each variant.
    """
    scale = {"rate": rate, "frames": frames, "proved": proved, "repeats": repeats}
    request = {"case": "live.threads:time_ages", "clip": str(clip.resolve()), **scale}
    provenance = origin(**scale, clip=clip.name)
    cases = tuple(
        compare_ages(model, **ask({**request, "model": model}), rate=rate, proved=proved)
        for model in models
    )
    return OwnCost(provenance=provenance, definition=DEFINITION, cases=cases)


def compare_ages(
    model: str, bare: Sequence[Any], pipeline: Sequence[Any], *, rate: int, proved: int
) -> OwnCostCase:
    """Return the case from (age, work) of each frame of each repeat; at least one frame."""
    bare_ages, bare_works = np.moveaxis(np.array(bare), -1, 0)
    ages, works = np.moveaxis(np.array(pipeline), -1, 0)
    added, added_work = ages - bare_ages, works - bare_works
    samples = {"bare": bare_ages, "pipeline": ages, "own": added, "stages": added_work}
    samples["hand_over"] = added - added_work
    quantiles = {f"{name}_ms": Quantiles.of(values.ravel()) for name, values in samples.items()}
    return OwnCostCase(
        model=model,
        proved_frames=proved,
        repeats_p50_ms=tuple(np.median(added, axis=1).round(4).tolist()),
        late_frames=int((bare_ages > 1e3 / rate).sum()),
        **quantiles,  # type: ignore[arg-type]
    )


def measure_overlap(
    clip: Path,
    ask: Ask,
    *,
    cases: Mapping[str, Mapping[str, Any]] = CASES,
    frames: int = 100,
    proved: int = 20,
    repeats: int = 5,
) -> Overlap:
    """Measure each case in its own process; see `time_pairs`."""
    scale: dict[str, Any] = {"frames": frames, "proved": proved, "repeats": repeats}
    request = {"case": "live.threads:time_pairs", "clip": str(clip.resolve()), **scale}
    about: dict[str, Any] = {"frames": frames, "cores": _CORES, "proved_frames": proved}
    return Overlap(
        provenance=origin(**scale, clip=clip.name),
        cases=tuple(
            OverlapCase(name=name, pairs=ask({**request, **case})["pairs"], **about)
            for name, case in cases.items()
        ),
    )


def prove(source: OneThread, runner: ModelRunner, count: int) -> None:
    """Raise ValueError unless both variants give equal results for the first `count` frames."""
    sequential, threaded = (
        [(r.number, _plain(r.output)) for r in variant(source, runner, count)]
        for variant in VARIANTS
    )
    if sequential != threaded or len(sequential) != count:
        raise ValueError("the results of the pipeline differ from those of one thread")


def time_ages(
    *, clip: str, rate: int, model: str, frames: int, proved: int, repeats: int
) -> dict[str, list[list[tuple[float, float]]]]:
    """Return (age, work) in milliseconds of each frame of each repeat, for both variants.

    The work excludes decoding, because the bare loop decodes while it waits for a due time.
    """
    source = OneThread(Path(clip), rate)
    prove(source, ModelRunner(prepare=_unchanged, run=lambda b: [*map(zlib.crc32, b)]), proved)
    idle = ModelRunner(prepare=_unchanged, run=lambda _: [0])
    runner = idle if model == "none" else classifier(threads=1)
    times: dict[str, list[list[tuple[float, float]]]] = {"bare": [], "pipeline": []}
    for _ in range(repeats):
        for repetitions, variant in zip(times.values(), VARIANTS, strict=True):
            results = list(variant(source, runner, frames))
            works = [sum(r.spent.values()) - r.spent["decode"] for r in results]
            repetitions.append([(r.age_ms, ns / 1e6) for r, ns in zip(results, works, strict=True)])
    return times


def time_pairs(
    *, clip: str, threads: int, waits: bool, frames: int, proved: int, repeats: int
) -> dict[str, list[dict[str, Any]]]:
    """Return pairs of repeats, one of each variant.

    Args:
        clip: Video, decoded by one thread at full speed.
        threads: Threads of one PyTorch operation.
        waits: Whether the model sleeps instead of computing, like a wait for a device.
        frames: Timed frames per repeat.
        proved: Frames whose results are compared before timing.
        repeats: Repeats of each variant.
    """
    at_least = _WAITED_SECONDS if waits else 0.0
    runner = classifier(threads=threads, at_least=at_least, waits=waits)
    source, pairs = OneThread(Path(clip)), list[dict[str, Any]]()
    prove(source, runner, proved)

    def timed(variant: Variant) -> tuple[dict[str, float], dict[str, float]]:
        meter = Meter()
        results = list(variant(source, runner, frames))
        times = meter.read()
        return times, {s: fmean(r.spent[s] for r in results) / 1e6 for s in STAGES}

    for _ in range(repeats):
        (sequential, stage_ms), (threaded, threaded_stage_ms) = map(timed, VARIANTS)
        pairs.append(
            {
                "sequential_seconds": sequential["wall_seconds"],
                "sequential_cpu_seconds": sequential["cpu_seconds"],
                "threaded_seconds": threaded["wall_seconds"],
                "stage_ms": stage_ms,
                "threaded_stage_ms": threaded_stage_ms,
            }
        )
    return {"pairs": pairs}


def _plain(output: Any) -> str:
    names = getattr(output, "names", None)
    return repr(output) if names is None else repr((names[0], output.confidence[0]))


def _unchanged(pixels: NDArray[np.uint8]) -> Any:
    return pixels


def own_cost(result: OwnCost) -> str:
    late = sum(case.late_frames for case in result.cases)
    return rendered(
        result.cases,
        {
            "added latency by model, ms": lambda case: NAMES.get(case.model, case.model),
            "p50": lambda case: f"{case.own_ms.p50:.2f}",
            "p95": lambda case: figure(case.own_ms.p95),
            "work": lambda case: f"{case.stages_ms.p50:.2f}",
            "queues": lambda case: f"{case.hand_over_ms.p50:.2f}",
            "repeats": lambda case: (
                f"{min(case.repeats_p50_ms):.2f}–{max(case.repeats_p50_ms):.2f}"
            ),
        },
        f"{result.definition} Median below {result.bar_ms:g} ms: "
        f"{yes(all(case.own_ms.p50 < result.bar_ms for case in result.cases))}.",
        "*Work*: additional time of the same work in the pipeline. *Queues*: the rest. Both are "
        "medians. *Repeats*: median of each repeat, min–max. Before timing, the frames of both "
        f"variants were equal, bit for bit. 720p, {result.provenance.configuration['rate']} "
        "frames/s.",
        *([f"No comparison: the bare loop fell behind at {late} frames."] if late else []),
        result.where,
    )


def overlap(result: Overlap) -> str:
    def stages(case: OverlapCase) -> str:
        names = case.pairs[0].stage_ms
        medians = (median(pair.stage_ms[name] for pair in case.pairs) for name in names)
        return " + ".join(f"{ms:.1f}" for ms in medians)

    pairs = len(result.cases[0].pairs) if result.cases else 0
    bound = [case for case in result.cases if case.is_of_stages]
    reached = sum(case.share >= 0.9 for case in bound)
    return rendered(
        result.cases,
        {
            "case": lambda case: case.name,
            "decode + preprocess + model, ms": stages,
            "speedup by threads": lambda case: spread(case.gains, ".2f"),
            "bound by stages": lambda case: f"{median(case.by_stages):.2f}",
            "bound by cores": lambda case: f"{median(case.by_cores):.2f}",
            "speedup ÷ bound by stages": lambda case: (
                f"{case.share:.2f}{'' if case.is_of_stages else '*'}"
            ),
        },
        "One thread per stage, compared with all stages in one thread; median (min–max) of "
        f"{pairs} interleaved pairs. *Bound by stages*: sum ÷ max of the stage times. *Bound by "
        "cores*: cores × wall time ÷ CPU time of the single thread. \\*: the bound by cores is the "
        "lower one. Speedup of at least 90% of the bound by stages, where this is the lower one: "
        f"{reached} of {len(bound)}.",
        result.where,
    )
