"""One repetition of a live pipeline under a load, without its warm-up."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from pydantic import NonNegativeFloat, NonNegativeInt

from headrace.live.drop_policy import DropPolicy, OverloadName
from headrace.measuring.interleaved import Repetition, Stopwatch
from headrace.profiling.input_records import NOT_COUNTED
from headrace.profiling.metrics import Metrics
from headrace.profiling.provenance import Provenance
from headrace.profiling.session import Session, Step, Steps
from headrace.runtime.clock import Clock

if TYPE_CHECKING:
    from headrace.bench.model_work import ModelWork
    from headrace.live.live_source import LiveSource
    from headrace.runs.live.live_pipeline import LivePlan

SETTLING_SECONDS: Final = 1.0
"""Uncounted seconds at the start: threads start, memory is allocated."""


class LiveRepetition(Repetition):
    """Figures of one live repetition. Times are milliseconds."""

    results: NonNegativeInt
    """Batches delivered; percentiles are over these."""
    delivered: NonNegativeInt
    """Frames delivered."""
    dropped: dict[str, NonNegativeInt]
    """"reason at stage" → dropped frames."""
    fps: NonNegativeFloat
    """Frames ÷ time from the first output to the last; 0 with fewer than two outputs."""
    service_p50: NonNegativeFloat | None
    """Work on a batch, without waits."""
    latency_p50: NonNegativeFloat | None
    """From the due time of a batch's newest frame to its output; None at full speed."""
    latency_p95: NonNegativeFloat | None
    """None at full speed or with too few batches."""
    jitter: NonNegativeFloat | None
    """Standard deviation of the intervals between outputs."""
    fps_cv: NonNegativeFloat | None
    """Std ÷ mean of the frames per second; None below ten whole seconds."""
    per_second: tuple[NonNegativeInt, ...]
    """Frames delivered in each whole second."""
    work_ms: dict[str, NonNegativeFloat]
    """Stage → mean work on a batch."""

    @property
    def rate(self) -> float:
        """Frames delivered per second."""
        return self.fps

    @property
    def num_dropped(self) -> int:
        """Frames dropped."""
        return sum(self.dropped.values())

    @property
    def drop_share(self) -> float:
        """Dropped ÷ (delivered + dropped), in [0, 1]."""
        dropped = self.num_dropped
        return dropped / (self.delivered + dropped) if dropped else 0.0


def live_plan(
    work: "ModelWork",
    sources: "Sequence[LiveSource]",
    *,
    overload: OverloadName,
    batch_size: int,
    seconds: float,
) -> "LivePlan":
    """Return a live plan over `sources`; every result is drawn and encoded.

    Args:
        work: Stages after the decoder.
        sources: Sources: all paced, or all at full speed.
        overload: Drop policy.
        batch_size: Frames in a batch; a maximum if paced.
        seconds: Time after which reading stops.
    """
    from headrace.bench.model_work import Show
    from headrace.runs.live.live_pipeline import LivePlan

    show = Show()

    def show_results(answered: Any) -> None:
        for (frame,), labels in zip(answered.views, answered.outputs, strict=True):
            show(frame.pixels, labels, frame.number)

    return LivePlan(
        sources=sources,
        model_runner=work.runner,
        overload=DropPolicy.from_name(overload, is_live=sources[0].base != "full_speed"),
        batch_size=batch_size,
        max_seconds=seconds,
        transfer=work.carrier,
        show=show_results,
    )


def time_live_plan(
    plan: "LivePlan",
    *,
    provenance: Provenance,
    clock: Clock,
    settling_seconds: float = SETTLING_SECONDS,
) -> LiveRepetition:
    """Run a plan to its end; return its figures after the warm-up.

    Args:
        plan: Plan to run; its sources end by themselves.
        provenance: Provenance of the record.
        clock: Clock for the timings.
        settling_seconds: Uncounted seconds after the first result.

    Raises:
        HeadraceError: see `LivePipeline`.
    """
    from headrace.runs.live.live_pipeline import LivePipeline
    from headrace.runs.live.live_session import stage_records, step_of

    steps: list[Step] = []
    settled, before = 0, Counter[tuple[str, str]]()
    watch, start_ns = Stopwatch(clock), clock.now_ns()
    with LivePipeline(plan, clock) as flow:
        for number, item in enumerate(flow):
            steps.append(step_of(item, number, start_ns, is_live=plan.is_live, clock=clock))
            if steps[-1].ended_ms - steps[0].ended_ms <= settling_seconds * 1e3:
                settled, before = number + 1, Counter(flow.run.flow().dropped)
    times = watch.stop(watch.seconds)
    if settled == len(steps):  # it ended during the warm-up: count everything
        settled, before = 0, Counter()
    session = Session(
        provenance=provenance,
        pace=plan.sources[0].base,
        outcome="complete",
        wall_seconds=times.seconds,
        stages=stage_records(flow, None)[0],
        warmup_steps=settled,
        steps=Steps.of(steps),
        decode=NOT_COUNTED,
    )
    dropped, metrics = Counter(flow.conserved().dropped) - before, Metrics.of(session)
    latency = metrics.latency.ms if metrics.latency else None
    return LiveRepetition(
        **times.model_dump(),
        results=metrics.steps,
        delivered=metrics.frames,
        dropped={f"{cause} at {stage}": count for (stage, cause), count in dropped.items()},
        fps=metrics.fps_mean or 0.0,
        service_p50=metrics.service_ms.p50 if metrics.service_ms else None,
        latency_p50=latency.p50 if latency else None,
        latency_p95=latency.p95 if latency else None,
        jitter=metrics.jitter_ms,
        fps_cv=metrics.fps_cv,
        per_second=metrics.per_second.counts if metrics.per_second else (),
        work_ms=metrics.cost.stages if metrics.cost else {},
    )
