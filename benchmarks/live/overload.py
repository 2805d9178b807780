"""Live run whose source has three times the model's rate, for a minute."""

from pathlib import Path
from typing import Any

import psutil

from benchmarks.live.figures import Conserved, Part, Quantiles, Series, sampled
from benchmarks.live.source import classifier
from benchmarks.markdown import table, yes
from benchmarks.media import FRAME_RATE
from benchmarks.record import origin
from benchmarks.worker import Ask, WorkerError
from headrace.live.address import FileAddress
from headrace.live.drop_policy import DropPolicy
from headrace.live.realtime_source import RealtimeFile
from headrace.runs.live.live_batches import ViewBatch
from headrace.runs.live.live_pipeline import LivePipeline, LivePlan
from headrace.runtime.clock import SYSTEM_CLOCK

_SAMPLE_SECONDS = 0.5


class Overloaded(Part, Conserved):
    """Live run at three times the model's rate."""

    seconds: float
    source_fps: float
    model_ms: float
    max_staleness_ms: float
    age_ms: Quantiles
    """Age of frames at the sink."""
    rss_bytes: Series
    warm_up_seconds: float
    """Start of the run that the check of memory leaves out."""

    @property
    def is_fresh(self) -> bool:
        """Whether the age of all shown frames is within the max staleness."""
        return self.age_ms.worst <= self.max_staleness_ms

    @property
    def is_memory_flat(self) -> bool:
        """Whether memory grew by less than 2 %."""
        rss = self.rss_bytes.after(self.warm_up_seconds)
        return bool(rss.values) and rss.growth < max(rss.values) / 50


def measure_overload(
    clip: Path,
    ask: Ask,
    *,
    seconds: float = 60.0,
    warm_up_seconds: float = 10.0,
    model_ms: float = 100.0,
    max_staleness_ms: float = 200.0,
) -> Overloaded:
    """Measure in a worker process; the clip must last at least `seconds`."""
    scale: Any = {"seconds": seconds, "model_ms": model_ms, "max_staleness_ms": max_staleness_ms}
    provenance = origin(**scale, clip=clip.name)
    answer = ask({"case": "live.overload", "clip": str(clip.resolve()), **scale})
    ages = Quantiles.of(answer["ages_ms"])
    if ages is None:
        raise WorkerError("no frame was shown under overload")
    figures = {"age_ms": ages, "rss_bytes": Series.of(answer["rss"]), **answer["counts"], **scale}
    figures |= {"source_fps": FRAME_RATE, "warm_up_seconds": warm_up_seconds}
    return Overloaded(provenance=provenance, **figures)


def answer(
    *, clip: str, seconds: float, model_ms: float, max_staleness_ms: float
) -> dict[str, Any]:
    """Return the ages of shown frames, the counts of frames, and the memory of this process."""
    ages_ms: list[float] = []

    def show(answered: ViewBatch) -> None:
        now_ns = SYSTEM_CLOCK.now_ns()
        ages_ms.extend((now_ns - v[-1].arrived_ns) / 1e6 for v in answered.views)

    limit = max_staleness_ms / 1e3
    plan = LivePlan(
        sources=[RealtimeFile(FileAddress(path=Path(clip)))],
        model_runner=classifier(threads=1, at_least=model_ms / 1e3),
        overload=DropPolicy.from_name("auto", is_live=True, max_staleness_seconds=limit),
        max_seconds=seconds,
        show=show,
    )
    process = psutil.Process()
    with (
        sampled(lambda: float(process.memory_info().rss), _SAMPLE_SECONDS) as series,
        LivePipeline(plan) as pipeline,
    ):
        for _ in pipeline:
            pass
    totals = pipeline.conserved()
    counts = {name: getattr(totals, name) for name in ("arrived", "delivered", "in_flight")}
    counts["drops"] = {": ".join(where): count for where, count in totals.dropped.items()}
    return {"ages_ms": ages_ms, "counts": counts, "rss": series}


def overload(result: Overloaded) -> str:
    memory = result.rss_bytes.after(result.warm_up_seconds)
    age = result.age_ms
    lines = [
        ("age of shown frames, p50", f"{age.p50:.0f} ms"),
        ("age of shown frames, p95", "" if age.p95 is None else f"{age.p95:.0f} ms"),
        ("age of shown frames, max", f"{age.worst:.0f} ms"),
        (f"age always within {result.max_staleness_ms:.0f} ms", yes(result.is_fresh)),
        *((f"dropped, {cause}", f"{count:,}") for cause, count in sorted(result.drops.items())),
        ("arrived = delivered + dropped + in flight", yes(result.is_conserved)),
        ("memory", f"{max(memory.values, default=0) / 2**20:,.0f} MiB"),
        ("memory growth", f"{memory.slope * 60 / 2**20:+.2f} MiB a minute"),
        ("memory is flat", yes(result.is_memory_flat)),
    ]
    notes = [
        f"A 720p file at its {result.source_fps:.0f} frames/s for {result.seconds:.0f} s, a model "
        f"of {result.model_ms:.0f} ms, and a max staleness of {result.max_staleness_ms:.0f} ms: "
        f"{result.arrived:,} frames arrived, {result.delivered:,} were shown. Age: from the due "
        "time of a frame to the sink. Memory is flat if it grows by less than 2% after the first "
        f"{result.warm_up_seconds:.0f} s.",
        result.where,
    ]
    return table(("overload: 3 × the model's rate", ""), lines, *notes)
