"""The flow of a live run, as experiments run and measure it: their model, their load."""

from collections import Counter
from collections.abc import Sequence

from headrace.bench.live_repetition import LiveTurn
from headrace.bench.overlap_work import Show, Work
from headrace.live.overload import Overload, OverloadName
from headrace.live.source import LiveSource
from headrace.measuring.interleaved import Stopwatch, Turn
from headrace.profiling.inputs import NOT_COUNTED
from headrace.profiling.metrics import Metrics
from headrace.profiling.provenance import Provenance
from headrace.profiling.session import Session
from headrace.profiling.steps import Step, Steps
from headrace.runs.live.engine import Engine
from headrace.runs.live.flow import LiveFlow, LivePlan
from headrace.runs.live.recording import stage_records, step_of
from headrace.runs.live.values import Answered
from headrace.runtime.clock import Clock


def live_plan(
    work: Work,
    sources: Sequence[LiveSource],
    *,
    overload: OverloadName,
    batch_size: int,
    seconds: float,
) -> LivePlan:
    """Return a flow over `sources` for so long; every result is drawn and encoded.

    Args:
        work: The stages behind the decoder.
        sources: Of one base: all paced, or all at full speed.
        overload: What is done when frames are too many.
        batch_size: Frames in a batch; at most, where they are paced.
        seconds: When reading stops.
    """
    show = Show()

    def showing(answered: Answered) -> None:
        for (frame,), labels in zip(answered.gathered.views, answered.outputs, strict=True):
            show(frame.pixels, labels, frame.number)

    return LivePlan(
        sources=sources,
        engine=Engine(prepare=work.prepare, run=work.infer, device=work.device),
        overload=Overload.chosen(overload, is_live=sources[0].base != "full_speed"),
        batch_size=batch_size,
        max_seconds=seconds,
        carrier=work.carrier,
        show=showing,
    )


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
