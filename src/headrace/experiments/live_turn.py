"""A turn of a live flow, measured once it has settled: what came out, how late, what was lost.

It is kept as the few figures that experiments compare; the definitions are those of every report.
"""

from collections import Counter

from pydantic import NonNegativeFloat, NonNegativeInt

from headrace.experiments.contend import Stopwatch, Turn
from headrace.profiling.inputs import NOT_COUNTED
from headrace.profiling.metrics import Metrics
from headrace.profiling.provenance import Provenance
from headrace.profiling.session import Session
from headrace.profiling.steps import Step, Steps
from headrace.runs.live.flow import LiveFlow, LivePlan
from headrace.runs.live.recording import stage_records, step_of
from headrace.runtime.clock import Clock


class LiveTurn(Turn):
    """What a flow came to; frames of the beginning left out. Times are milliseconds."""

    results: NonNegativeInt
    """Batches that came out; percentiles are over these."""
    delivered: NonNegativeInt
    """Frames that came out."""
    dropped: dict[str, NonNegativeInt]
    """"cause at stage" -> frames that ended there."""
    fps: NonNegativeFloat
    """Frames ÷ time from the first output to the last; 0 where fewer than two came."""
    service_p50: NonNegativeFloat | None
    """Work on a batch, waits left out."""
    latency_p50: NonNegativeFloat | None
    """From when the newest frame of a batch was due; None at full speed, where there is none."""
    latency_p95: NonNegativeFloat | None
    """None too where batches are too few for it."""
    jitter: NonNegativeFloat | None
    """Standard deviation of the intervals between outputs."""
    fps_cv: NonNegativeFloat | None
    """Std ÷ mean of the frames per second; None below ten whole seconds."""
    per_second: tuple[NonNegativeInt, ...]
    """Frames that came out in each whole second."""
    work_ms: dict[str, NonNegativeFloat]
    """Stage -> mean work on a batch."""

    @property
    def drop_share(self) -> float:
        """Dropped ÷ (delivered + dropped), in [0, 1]."""
        dropped = sum(self.dropped.values())
        return dropped / (self.delivered + dropped) if dropped else 0.0

    @property
    def cores(self) -> float:
        """Processor time ÷ wall time: 1 is one core busy throughout."""
        return self.cpu_seconds / self.seconds


def take_live_turn(
    plan: LivePlan, *, settling_seconds: float, made: Provenance, clock: Clock
) -> LiveTurn:
    """Run a plan to its end, and say what came of it once it had settled.

    Args:
        plan: What to run; its sources end by themselves.
        settling_seconds: After the first result, from when on it counts: threads have begun,
            memory was taken.
        made: Where the record comes from that this goes into.
        clock: What measures.

    Raises:
        HeadraceError: as `LiveFlow` raises it.
    """
    steps: list[Step] = []
    settled, before = 0, Counter[tuple[str, str]]()
    watch, start_ns = Stopwatch(clock), clock.now_ns()
    with LiveFlow(plan, clock) as flow:
        for number, item in enumerate(flow):
            steps.append(step_of(item, number, start_ns, is_live=plan.is_live, clock=clock))
            if steps[-1].ended_ms - steps[0].ended_ms <= settling_seconds * 1e3:
                settled, before = number + 1, Counter(flow.run.flow().dropped)
    spent = watch.turn(watch.seconds)
    if settled == len(steps):  # it ended before it had settled: all of it counts
        settled, before = 0, Counter()
    session = Session(
        provenance=made,
        pace=plan.sources[0].base,
        outcome="complete",
        wall_seconds=spent.seconds,
        stages=stage_records(flow, None)[0],
        warmup_steps=settled,
        steps=Steps.of(steps),
        decode=NOT_COUNTED,
    )
    dropped = Counter(flow.conserved().dropped) - before
    return _turn(spent, Metrics.of(session), dropped)


def _turn(spent: Turn, found: Metrics, dropped: Counter[tuple[str, str]]) -> LiveTurn:
    latency = None if found.latency is None else found.latency.ms
    return LiveTurn(
        **spent.model_dump(),
        results=found.steps,
        delivered=found.frames,
        dropped={f"{cause} at {stage}": frames for (stage, cause), frames in dropped.items()},
        fps=found.fps_mean or 0.0,
        service_p50=found.service_ms.p50 if found.service_ms else None,
        latency_p50=latency.p50 if latency else None,
        latency_p95=latency.p95 if latency else None,
        jitter=found.jitter_ms,
        fps_cv=found.fps_cv,
        per_second=found.per_second.counts if found.per_second else (),
        work_ms=found.cost.stages if found.cost else {},
    )
