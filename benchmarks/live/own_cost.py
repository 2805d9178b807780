"""Cost of the live pipeline per frame, beyond the bare stages."""

import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.live.figures import NAMES, Part, Quantiles
from benchmarks.live.source import Answered, OneThread, classifier, in_threads, one_after_another
from benchmarks.markdown import figure, rendered, yes
from benchmarks.record import origin
from benchmarks.worker import Ask
from headrace.profiling.provenance import Record
from headrace.runs.live.live_batches import ModelRunner

DEFINITION = (
    "Age of a frame, from when it was due until the consumer has its answer, in the pipeline "
    "(threads for source, preprocessing and model, with their queues), minus its age in a "
    "bare loop that decodes, waits until the frame is due, stacks, preprocesses and runs the model "
    "in one thread; frame by frame, at a rate that neither falls behind on."
)


class OwnCostCase(Record):
    """One model."""

    model: str
    proved_frames: int
    """Frames compared bit for bit between both variants, before timing."""
    bare_ms: Quantiles
    """Age of a frame at its result, in the bare loop."""
    pipeline_ms: Quantiles
    """The same in the pipeline."""
    own_ms: Quantiles
    """The difference, frame by frame."""
    stages_ms: Quantiles
    """Part of `own_ms`: additional time of the same work inside the pipeline."""
    hand_over_ms: Quantiles
    """Part of `own_ms`: time between stages and to the consumer, minus the bare loop's delay."""
    repeats_p50_ms: tuple[float, ...]
    """Median of `own_ms` in each repeat; their spread is the machine's noise."""
    late_frames: int = 0
    """Frames of the bare loop unfinished when the next was due: it fell behind, so the differences
    mean little."""


class OwnCost(Part):
    """Cost of the pipeline per frame."""

    definition: str
    bar_ms: float = 1.0
    cases: tuple[OwnCostCase, ...]


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
        models: See `answer`, also for the other arguments.
        rate: Frames per second, slow enough for a single thread.
        frames: Timed frames per repeat.
        proved: Compared frames.
        repeats: Repeats of each variant.
    """
    scale = {"rate": rate, "frames": frames, "proved": proved, "repeats": repeats}
    asked = {"case": "live.own_cost", "clip": str(clip.resolve()), **scale}
    made = origin(**scale, clip=clip.name)
    answers = {model: ask({**asked, "model": model}) for model in models}
    cases = tuple(
        compare_ages(model, **found, rate=rate, proved=proved) for model, found in answers.items()
    )
    return OwnCost(provenance=made, definition=DEFINITION, cases=cases)


def compare_ages(
    model: str, bare: Sequence[Any], pipeline: Sequence[Any], *, rate: int, proved: int
) -> OwnCostCase:
    """Return the case from (age, work) of each frame of each repeat; at least one frame."""
    bare_ages, bare_works = np.moveaxis(np.array(bare), -1, 0)
    ages, works = np.moveaxis(np.array(pipeline), -1, 0)
    own, longer = ages - bare_ages, works - bare_works
    samples = {"bare": bare_ages, "pipeline": ages, "own": own, "stages": longer}
    samples["hand_over"] = own - longer
    quantiles = {f"{name}_ms": Quantiles.of(found.ravel()) for name, found in samples.items()}
    return OwnCostCase(
        model=model,
        proved_frames=proved,
        repeats_p50_ms=tuple(np.median(own, axis=1).round(4).tolist()),
        late_frames=int((bare_ages > 1e3 / rate).sum()),
        **quantiles,  # type: ignore[arg-type]
    )


Times = tuple[float, float]
"""Milliseconds of one frame: age, and work."""


def answer(
    *, clip: str, rate: int, model: str, frames: int, proved: int, repeats: int
) -> dict[str, list[list[Times]]]:
    """Check that both variants give equal frames, then time them, interleaved.

    Args:
        clip: Video.
        rate: Frames per second.
        model: "mobilenet_v2"; "none" neither preprocesses nor computes.
        frames: Timed frames per repeat.
        proved: Compared frames.
        repeats: Repeats of each variant.
    """
    bare = ModelRunner(prepare=_unchanged, run=lambda batch: [0])
    engine = bare if model == "none" else classifier(threads=1)
    source = OneThread(Path(clip), rate)
    sums = ModelRunner(prepare=_unchanged, run=lambda batch: [zlib.crc32(each) for each in batch])
    bare_sums, pipeline_sums = (
        [each.output for each in variant(source, sums, proved)]
        for variant in (one_after_another, in_threads)
    )
    if bare_sums != pipeline_sums or len(bare_sums) != proved:
        raise ValueError("the pipeline gave other frames than the bare loop")
    timed: dict[str, list[list[Times]]] = {"bare": [], "pipeline": []}
    for _ in range(repeats):
        timed["bare"].append(_times(one_after_another(source, engine, frames)))
        timed["pipeline"].append(_times(in_threads(source, engine, frames)))
    return timed


def _times(results: Iterable[Answered]) -> list[Times]:
    """Return age and work of each frame; the bare loop decodes while it waits for a due time."""
    return [
        (each.age_ms, sum(ns for stage, ns in each.spent.items() if stage != "decode") / 1e6)
        for each in results
    ]


def _unchanged(pixels: NDArray[np.uint8]) -> Any:
    return pixels


def own_cost(result: OwnCost) -> str:
    late = sum(case.late_frames for case in result.cases)
    return rendered(
        result.cases,
        {
            "own cost of a frame, ms; model": lambda case: NAMES.get(case.model, case.model),
            "p50": lambda case: f"{case.own_ms.p50:.2f}",
            "p95": lambda case: figure(case.own_ms.p95),
            "longer work": lambda case: f"{case.stages_ms.p50:.2f}",
            "hand-over": lambda case: f"{case.hand_over_ms.p50:.2f}",
            "repeats": lambda case: (
                f"{min(case.repeats_p50_ms):.2f}–{max(case.repeats_p50_ms):.2f}"
            ),
        },
        f"{result.definition} Below {result.bar_ms:g} ms in the median: "
        f"{yes(all(case.own_ms.p50 < result.bar_ms for case in result.cases))}.",
        "*Longer work* is what the same stages took longer inside, *hand-over* all between them; "
        "medians. *Repeats*: the median of each repeat, min–max. Both variants gave the same "
        f"frames, bit for bit, before. 720p, {result.provenance.configuration['rate']} frames/s.",
        *([f"The bare loop fell behind at {late} frames: too slow here to tell."] if late else []),
        result.where,
    )
