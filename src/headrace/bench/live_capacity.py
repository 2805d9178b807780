"""Live capacity: the highest rate, or number of streams, that meets a latency and drop SLO.

The load is open-loop: frames are due on a schedule that does not wait for the pipeline.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal

from pydantic import NonNegativeFloat, PositiveFloat

from headrace.bench.benchmark import Benchmark, BenchmarkRecord, Context, SuiteSpec
from headrace.bench.charts import Line, lines
from headrace.bench.config import ThreadedModelConfig, indexes_of
from headrace.bench.ladder import Scale, highest_held, lowest_broken, next_level
from headrace.bench.live_load import SETTLING_SECONDS, LiveRepetition, live_plan, time_live_plan
from headrace.config_fields import Option
from headrace.live.drop_policy import OverloadName
from headrace.live.realtime_source import LoadGenerator
from headrace.measuring.interleaved import SAME_AGAIN, UNTESTED, cores_of_others, disturbance
from headrace.profiling.findings.finding import Finding
from headrace.profiling.number_format import counted, decimal, milliseconds, percent, seconds
from headrace.profiling.provenance import record_of
from headrace.report.benchmark_page import Column
from headrace.report.page import MARK, PLAIN, Chart
from headrace.runtime.distribution import P95_SAMPLES
from headrace.video.stream_index import StreamIndex


@dataclass(frozen=True, kw_only=True)
class LatencySlo:
    """Service level objective of a live pipeline."""

    p95_ms: float
    """Max p95 latency, milliseconds."""
    max_drop: float
    """Max share of dropped frames, in [0, 1)."""

    @property
    def words(self) -> str:
        """`p95 latency at most 100 ms, at most 1 % dropped`."""
        p95 = milliseconds(self.p95_ms)
        return f"p95 latency at most {p95}, at most {_share(self.max_drop)} dropped"

    @property
    def results_needed(self) -> int:
        """Min results for a p95, with the max share of drops."""
        return round(P95_SAMPLES * 1.1 / (1 - self.max_drop)) + 1

    def broken_by(self, repetition: LiveRepetition) -> tuple[str, ...]:
        """Return the reasons a repetition misses the SLO, as phrases; empty: met.

        Too few results for a p95 also count as a miss.
        """
        reasons, p95_ms = [], repetition.latency_p95
        if p95_ms is None:
            results = counted(repetition.results, "result")
            reasons.append(f"only {results}, {P95_SAMPLES} are needed for a p95")
        elif p95_ms > self.p95_ms:
            reasons.append(f"p95 latency {milliseconds(p95_ms)}")
        if repetition.drop_share > self.max_drop:
            dropped = sorted(repetition.dropped.items())
            causes = ", ".join(f"{cause}: {frames:,}" for cause, frames in dropped if frames)
            reasons.append(f"{_share(repetition.drop_share)} dropped ({causes})")
        return tuple(reasons)


def _share(share: float) -> str:
    return percent(share) if share >= 0.1 else f"{100 * share:.2g} %"


Search = Literal["rate", "streams"]

_LEAST_RATE: Final = 5.0
"""Min frames per second; lower rates need more than 20 s per step for a p95."""
_MOST_RATE: Final = 4000.0
_MOST_STREAMS: Final = 64


@dataclass(frozen=True, kw_only=True)
class LiveConfig(ThreadedModelConfig):
    """Options of `bench live`."""

    one_video_of: ClassVar = "live"
    p95_ms: Annotated[
        float, Option("SLO: max p95 latency, in milliseconds.", above=0, most=600_000)
    ] = 100.0
    max_drop: Annotated[float, Option("SLO: max drops, in percent.", least=0, most=50)] = 1.0
    search: Annotated[
        Search, Option("Load to raise: the rate of one stream, or the number of streams.")
    ] = "rate"
    overload: Annotated[OverloadName, Option("Policy on overload.")] = "auto"
    batch_size: Annotated[int, Option("Max frames per batch.", least=1)] = 1
    seconds: Annotated[
        float, Option("Counted seconds per step; longer if a p95 needs it.", least=1, most=3600)
    ] = 5.0
    steps: Annotated[int, Option("Max number of steps.", least=1, most=100)] = 12

    @property
    def slo(self) -> LatencySlo:
        """The latency and drop limits."""
        return LatencySlo(p95_ms=self.p95_ms, max_drop=self.max_drop / 100)

    def step_seconds(self, fps: float) -> float:
        """Return the seconds of a step at `fps` frames/s over all streams: enough for a p95."""
        counting = max(self.seconds, self.slo.results_needed * self.batch_size / fps)
        return SETTLING_SECONDS + counting


class LiveStep(LiveRepetition):
    """One load, run once."""

    level: PositiveFloat
    """Load: frames per second, or streams."""
    offered_fps: PositiveFloat
    """Frames per second of all streams."""
    broken_by: tuple[str, ...]
    """Reasons the SLO was missed; empty: met."""

    @property
    def holds(self) -> bool:
        """Whether the SLO was met."""
        return not self.broken_by


class LiveRecord(BenchmarkRecord):
    """All steps of the search."""

    search: Search
    p95_ms: PositiveFloat
    max_drop: NonNegativeFloat
    """Share, in [0, 1)."""
    frame_rate: PositiveFloat
    """Frame rate of the video."""
    least: PositiveFloat
    """Lowest load of the search."""
    most: PositiveFloat
    model_seconds: NonNegativeFloat
    """Seconds to load and warm up the model, before all steps."""
    steps: tuple[LiveStep, ...]
    """Steps in run order."""


def announce(config: LiveConfig) -> str:
    """Return the estimated time as text."""
    usual, longest = config.step_seconds(float("inf")), config.step_seconds(_LEAST_RATE)
    slow = f", {seconds(longest)} at the lowest rates" if longest > usual else ""
    return f"Time: at most {counted(config.steps, 'step')} of {seconds(usual)}{slow}"


def scale_of(config: LiveConfig, frame_rate: float) -> Scale:
    """Return the range of loads for a video."""
    if config.search == "streams":
        return Scale(
            first=1, least=1, most=_MOST_STREAMS, is_whole=True, close=1.0, steps=config.steps
        )
    first = min(_MOST_RATE, max(_LEAST_RATE, frame_rate))
    return Scale(
        first=float(f"{first:.3g}"), least=_LEAST_RATE, most=_MOST_RATE, steps=config.steps
    )


def measure_live(config: LiveConfig, context: Context) -> LiveRecord:
    """Try loads until the highest that meets the SLO is known."""
    from headrace.bench.model_work import ready_work

    provenance, compute = context.provenance(config), config.compute_options(config.batch_size)
    [index] = indexes_of(config.videos, context.store)
    frame_rate = float(index.frame_rate)
    scale, steps = scale_of(config, frame_rate), list[LiveStep]()

    def step(level: float) -> LiveStep:
        offered = level if config.search == "rate" else level * frame_rate
        plan = live_plan(
            work,
            _sources(config.search, index, level, frame_rate),
            overload=config.overload,
            batch_size=config.batch_size,
            seconds=config.step_seconds(offered),
        )
        repetition = time_live_plan(plan, provenance=provenance, clock=context.clock)
        broken_by = config.slo.broken_by(repetition)
        return LiveStep(
            **repetition.model_dump(), level=level, offered_fps=offered, broken_by=broken_by
        )

    with ready_work(compute, context.clock) as (work, model_seconds):
        while (level := next_level(steps, scale)) is not None:
            context.on_progress(level_words(config.search, level), len(steps), scale.steps)
            steps.append(step(level))
    return record_of(
        LiveRecord,
        config,
        provenance=provenance,
        max_drop=config.max_drop / 100,
        frame_rate=frame_rate,
        least=scale.least,
        most=scale.most,
        model_seconds=model_seconds,
        steps=tuple(steps),
    )


def level_words(search: Search, level: float) -> str:
    """`60.0 frames/s`, `4 streams`."""
    return counted(int(level), "stream") if search == "streams" else f"{decimal(level)} frames/s"


def _sources(
    search: Search, index: StreamIndex, level: float, frame_rate: float
) -> Sequence[LoadGenerator]:
    if search == "rate":
        return [LoadGenerator([index], speed=level / frame_rate)]
    streams = int(level)
    # Real cameras do not send frames at the same moment.
    return [
        LoadGenerator([index], delay_seconds=number / (streams * frame_rate))
        for number in range(streams)
    ]


def _answer(record: LiveRecord, steps: tuple[LiveStep, ...]) -> tuple[Finding, ...]:
    met, missed = highest_held(steps), lowest_broken(steps)
    slo = LatencySlo(p95_ms=record.p95_ms, max_drop=record.max_drop)
    doubts = disturbance(cores_of_others(steps) or 0.0, record.cores)
    evidence = [f"SLO: {slo.words}."]
    if met is not None:
        load, p95 = level_words(record.search, met.level), met.latency_p95
        latency = "" if p95 is None else f"p95 latency {milliseconds(p95)}, "
        evidence.append(
            f"At {load}: {latency}{percent(met.drop_share)} dropped, {decimal(met.fps)} frames/s "
            f"delivered, CPU {percent(met.cores)} of one core."
        )
    if missed is not None:
        reasons = " and ".join(missed.broken_by)
        evidence.append(f"SLO missed at {level_words(record.search, missed.level)}: {reasons}.")
    if missed is not None and missed.work_ms:
        stage, ms = max(missed.work_ms.items(), key=lambda item: item[1])
        evidence.append(
            f"The slowest stage at this load was {stage}: {milliseconds(ms)} of "
            f"{milliseconds(sum(missed.work_ms.values()))} of work per batch."
        )
    evidence += [
        f"Not counted: {seconds(record.model_seconds)} of model startup, and the first second of "
        "each step.",
        f"Each load was run once: {UNTESTED}.",
        *doubts,
    ]
    headline, change = _verdict(record, met, missed)
    if missed is not None and doubts:
        headline = f"Other programs ran, so the limit may be higher. {headline}"
        change = f"{SAME_AGAIN}."
    return (Finding(headline=headline, evidence=tuple(evidence), change=change),)


def _verdict(
    record: LiveRecord, met: LiveStep | None, missed: LiveStep | None
) -> tuple[str, str | None]:
    more = "A larger --steps"
    broken_at = "" if missed is None else level_words(record.search, missed.level)
    if met is None and missed is not None and missed.level > record.least:
        tried = f"SLO missed at every load tried, down to {broken_at}"
        return tried, f"{more}, to try lower loads."
    if met is None:
        return (
            f"SLO missed even at the lowest load, {broken_at}",
            "A lighter model (--model-name), --prep-level simple, or a wider SLO.",
        )
    load = level_words(record.search, met.level)
    if missed is not None:
        return f"SLO met up to {load}, missed at {broken_at}", None
    if met.level >= record.most:
        return f"SLO met at every possible load, up to {load}", None
    return f"SLO met up to {load} at least; the limit was not reached", f"{more}."


def _charts(record: LiveRecord, steps: tuple[LiveStep, ...]) -> tuple[Chart, ...]:
    ascending = sorted(steps, key=lambda step: step.offered_fps)
    offered = "frames/s offered, all streams together"
    return (
        lines(
            [
                Line(
                    name,
                    [
                        (step.offered_fps, step.latency_p95)
                        for step in ascending
                        if step.holds is holds
                    ],
                    color=color,
                    mark=mark,
                )
                for name, holds, color, mark in (
                    ("met", True, PLAIN, "circle"),
                    ("missed", False, MARK, "x"),
                )
            ],
            name="latency",
            title="p95 latency by load",
            reading="One mark per step: SLO met or missed. With dropped frames, latency may stay "
            "low while the drop limit is missed.",
            x=offered,
            y="ms",
            limits={"SLO": record.p95_ms},
        ),
        lines(
            [Line("dropped", [(step.offered_fps, 100 * step.drop_share) for step in ascending])],
            name="drops",
            title="Dropped frames by load",
            reading="Share of the offered frames that were not delivered.",
            x=offered,
            y="%",
        ),
    )


LIVE: Final[Benchmark[LiveConfig, LiveRecord, LiveStep]] = Benchmark(
    name="live",
    summary="Find the highest rate, or number of streams, that meets a latency and drop SLO.",
    config=LiveConfig,
    record=LiveRecord,
    measure=measure_live,
    announce=announce,
    title=lambda record: (
        f"Highest {'rate' if record.search == 'rate' else 'number of streams'} with p95 latency "
        f"within {milliseconds(record.p95_ms)}, "
        f"from a video of {decimal(record.frame_rate)} frames/s"
    ),
    rows=lambda record: record.steps,
    columns=lambda record: (
        Column("load", lambda step: level_words(record.search, step.level)),
        Column("frames/s", lambda step: decimal(step.fps)),
        Column("p50 ms", lambda step: decimal(step.latency_p50)),
        Column("p95 ms", lambda step: decimal(step.latency_p95)),
        Column("dropped", lambda step: percent(step.drop_share)),
        Column("CPU", lambda step: percent(step.cores)),
        Column("SLO", lambda step: "met" if step.holds else "missed"),
    ),
    reading=lambda record, rows: (
        "Steps in the order they were tried. Load is the offered load, frames/s the delivered "
        "rate, of all streams. Latency is from the due time of a frame until it was shown. The "
        "load is doubled until the SLO is missed; then bisection finds the limit, to "
        + ("one stream." if record.search == "streams" else "10 %.")
    ),
    answer=_answer,
    charts=_charts,
    terms=SuiteSpec(config=lambda videos: LiveConfig(videos=videos, steps=8), seconds=50),
)
