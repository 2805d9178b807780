"""Offline and real-time scenario of one pipeline: full speed, and paced by the frame rate."""

from dataclasses import dataclass
from statistics import median
from typing import Annotated, ClassVar, Final, Literal

from pydantic import NonNegativeFloat, PositiveFloat

from headrace.bench.benchmark import Benchmark, BenchmarkRecord, Context
from headrace.bench.charts import Charts, Line, lines
from headrace.bench.config import ThreadedModelConfig, indexes_of
from headrace.bench.live_load import LiveRepetition, live_plan, time_live_plan
from headrace.config_fields import Option
from headrace.live.realtime_source import LoadGenerator
from headrace.measuring.interleaved import AGAIN, RepetitionRow, interleave
from headrace.profiling.findings.finding import Finding
from headrace.profiling.number_format import decimal, milliseconds, percent, seconds
from headrace.report.benchmark_page import Column
from headrace.report.page import MARK, PLAIN

Scenario = Literal["offline", "realtime"]
_SCENARIOS: Final[tuple[Scenario, ...]] = ("offline", "realtime")


@dataclass(frozen=True, kw_only=True)
class ScenariosConfig(ThreadedModelConfig):
    """Options of `bench scenarios`."""

    one_video_of: ClassVar = "scenarios"
    batch_size: Annotated[int, Option("Frames per batch; a maximum in real time.", least=1)] = 1
    seconds: Annotated[float, Option("Approximate seconds per repetition.", least=2, most=3600)] = (
        13.0
    )
    repeats: Annotated[int, Option("Repetitions per scenario.", least=1)] = 2


class ScenarioRepetition(LiveRepetition):
    """One repetition of a scenario."""

    mode: Scenario


class ScenariosRecord(BenchmarkRecord):
    """Repetitions of both scenarios."""

    frame_rate: PositiveFloat
    """Frame rate of the video: the load of the real-time scenario."""
    model_seconds: NonNegativeFloat
    """Seconds to load and warm up the model, before all repetitions."""
    turns: tuple[ScenarioRepetition, ...]


@dataclass(frozen=True, kw_only=True)
class ScenarioRow(RepetitionRow[ScenarioRepetition]):
    """Repetitions of one scenario."""

    def known(self, figure: str) -> float | None:
        """Return the median of a figure; None if a repetition lacks it."""
        values = [getattr(repetition, figure) for repetition in self.repetitions]
        return None if None in values else median(values)

    @property
    def drop_share(self) -> float:
        """Drop share over all repetitions."""
        dropped = sum(repetition.num_dropped for repetition in self.repetitions)
        delivered = sum(repetition.delivered for repetition in self.repetitions)
        return dropped / (dropped + delivered) if dropped else 0.0

    @property
    def per_second(self) -> tuple[int, ...]:
        """Frames delivered in each full second of the longest repetition."""
        return max((repetition.per_second for repetition in self.repetitions), key=len)


def measure_scenarios(config: ScenariosConfig, context: Context) -> ScenariosRecord:
    """Run one video in both scenarios, interleaved; a video shorter than a repetition restarts."""
    from headrace.bench.model_work import ready_work

    provenance, compute = context.provenance(config), config.compute_options(config.batch_size)
    indexes = indexes_of(config.videos, context.store)

    def take(mode: Scenario) -> ScenarioRepetition:
        source = LoadGenerator(indexes, speed=None if mode == "offline" else 1.0)
        plan = live_plan(
            work, [source], overload="auto", batch_size=config.batch_size, seconds=config.seconds
        )
        repetition = time_live_plan(plan, provenance=provenance, clock=context.clock)
        return ScenarioRepetition(**repetition.model_dump(), mode=mode)

    with ready_work(compute, context.clock) as (work, model_seconds):
        repetitions = interleave(
            _SCENARIOS, take, repeats=config.repeats, warm_up=None, on_progress=context.on_progress
        )
    return ScenariosRecord(
        provenance=provenance,
        frame_rate=float(indexes[0].frame_rate),
        model_seconds=model_seconds,
        turns=repetitions,
    )


def rows_of(record: ScenariosRecord) -> tuple[ScenarioRow, ...]:
    """Return one row per scenario."""
    return ScenarioRow.by(lambda repetition: repetition.mode, record.turns)


_STEADY: Final = 0.05
"""FPS CV below which the frame rate is steady."""
_KEEPS_UP: Final = 1.1
"""Min rate ÷ frame rate of the video for a pipeline to keep up on average."""
_WORDS: Final = {"offline": "offline", "realtime": "real time"}
_MISSING_P95: Final = {"offline": "-", "realtime": "n small"}


def _answer(record: ScenariosRecord, rows: tuple[ScenarioRow, ...]) -> tuple[Finding, ...]:
    offline, live = rows
    video_rate = f"{decimal(record.frame_rate)} frames/s"
    noise = record.noise(rows)
    latency = live.known("latency_p95")
    p95 = "" if latency is None else f", p95 latency {milliseconds(latency)}"
    if live.drop_share:
        headline = (
            f"In real time, {percent(live.drop_share)} of the frames are dropped: "
            f"{decimal(live.rate.median)} of {video_rate} are delivered{p95}"
        )
        if noise.is_disturbed:
            headline = f"Other programs ran; without them, it may keep up. {headline}"
    else:
        headline = f"Real time keeps up with {video_rate}{p95}, nothing dropped"
    no_latency = "Offline there is no latency: frames of a file have no due time."
    if (service := offline.known("service_p50")) is not None:
        no_latency = (
            f"Offline, the median work on a batch is {milliseconds(service)}. This is not a "
            "latency: frames of a file have no due time."
        )
    evidence = [
        f"Offline, the same pipeline delivers {decimal(offline.rate.median)} frames/s, "
        f"{decimal(offline.rate.median / record.frame_rate)} times the rate of the video. CPU: "
        f"{percent(offline.cores)} of one core offline, {percent(live.cores)} in real time.",
        no_latency,
        *_steadiness(offline, live),
        f"Not counted: {seconds(record.model_seconds)} of model startup, and the first second of "
        "each repetition.",
        *noise.sentences("Repetitions of one scenario"),
    ]
    return (Finding(headline=headline, evidence=tuple(evidence), change=_change(record, rows)),)


def _steadiness(offline: ScenarioRow, live: ScenarioRow) -> list[str]:
    sentences = []
    jitter = offline.known("jitter"), live.known("jitter")
    if jitter[0] is not None and jitter[1] is not None:
        smaller = "less" if jitter[1] < jitter[0] else "no less"
        sentences.append(
            f"Latency jitter (std of the intervals between results) is {smaller} in real time: "
            f"{milliseconds(jitter[1])}, offline {milliseconds(jitter[0])}."
        )
    cv = offline.known("fps_cv"), live.known("fps_cv")
    if cv[0] is None or cv[1] is None:
        sentences.append("FPS CV needs ten whole seconds: give --seconds 13 or more.")
        return sentences
    words = {
        (True, True): "Frames per second are steady in both scenarios",
        (True, False): "Frames per second are steady in real time only, where input is paced",
        (False, True): "Frames per second are steady offline only",
        (False, False): "Frames per second are steady in neither scenario",
    }[cv[1] < _STEADY, cv[0] < _STEADY]
    sentences.append(
        f"{words}: FPS CV {decimal(cv[1])} in real time, {decimal(cv[0])} offline "
        f"(steady is below {_STEADY:g})."
    )
    return sentences


def _change(record: ScenariosRecord, rows: tuple[ScenarioRow, ...]) -> str:
    offline, live = rows
    noise = record.noise(rows)
    if live.drop_share and noise.is_disturbed:
        return AGAIN
    if live.drop_share and offline.rate.median > _KEEPS_UP * record.frame_rate:
        return (
            "headrace run --queue 8 with a longer --max-staleness: fewer drops, more latency. The "
            "mean rate is high enough; frames are dropped only in slow moments."
        )
    if live.drop_share:
        return (
            "headrace run --stride, to process fewer frames, or a lighter model; offline, no frame "
            "is dropped."
        )
    if offline.rate.median > 2 * record.frame_rate:
        return (
            "There is room: headrace bench live --search streams finds how many streams of this "
            "video meet a latency SLO."
        )
    return "headrace bench live finds how much more load meets a latency SLO."


def _charts(record: ScenariosRecord, rows: tuple[ScenarioRow, ...]) -> Charts:
    chart = lines(
        [
            Line(_WORDS[row.first.mode], tuple(enumerate(row.per_second, 1)), color=color)
            for row, color in zip(rows, (PLAIN, MARK), strict=True)
        ],
        name="frame-rate",
        title="Frames per second over time",
        reading="Frames delivered in each full second of one repetition. A flat line is steady. "
        "Offline runs at the rate of the pipeline, real time at the rate of the video.",
        x="second of the repetition",
        y="frames/s",
    )
    return (chart,)


SCENARIOS: Final[Benchmark[ScenariosConfig, ScenariosRecord, ScenarioRow]] = Benchmark(
    name="scenarios",
    summary="Run one video offline and in real time; compare latency and steadiness.",
    config=ScenariosConfig,
    record=ScenariosRecord,
    measure=measure_scenarios,
    title=lambda record: (
        f"Offline and in real time: a video of {decimal(record.frame_rate)} frames/s"
    ),
    rows=rows_of,
    columns=(
        Column("scenario", lambda row: _WORDS[row.first.mode]),
        Column("frames/s", lambda row: decimal(row.rate.median)),
        Column("service ms", lambda row: decimal(row.known("service_p50"))),
        Column("p50 ms", lambda row: decimal(row.known("latency_p50"))),
        Column(
            "p95 ms", lambda row: decimal(row.known("latency_p95"), _MISSING_P95[row.first.mode])
        ),
        Column("jitter ms", lambda row: decimal(row.known("jitter"))),
        Column("FPS CV", lambda row: decimal(row.known("fps_cv"))),
        Column("dropped", lambda row: percent(row.drop_share)),
        Column("CPU", lambda row: percent(row.cores)),
    ),
    reading="Medians over the repetitions. Service: work on a batch in all stages. p50, p95: "
    "latency from the due time of a frame until it was shown; none offline. Jitter: standard "
    "deviation of the intervals between results. FPS CV: standard deviation ÷ mean of the frames "
    "per second. A video shorter than a repetition restarts.",
    answer=_answer,
    charts=_charts,
)
