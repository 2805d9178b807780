"""Stage benchmark: decode, preprocess and model alone, one after the other."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Annotated, ClassVar, Final, Self

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from headrace.bench.benchmark import (
    Benchmark,
    BenchmarkRecord,
    StageWork,
    SuiteSpec,
    alone_ms,
    deferred,
    pace_ms,
)
from headrace.bench.charts import bars
from headrace.bench.config import BatchSize, ThreadedModelConfig, TurnSeconds
from headrace.config_fields import Option
from headrace.measuring.decode_counts import p95_column, rate_columns
from headrace.measuring.interleaved import AGAIN, NoiseCheck, Repetition, RepetitionRow
from headrace.profiling.findings.advice import lighter_work
from headrace.profiling.findings.finding import Change, Finding
from headrace.profiling.number_format import counted, decimal, percent, ratio, seconds
from headrace.profiling.run_records import ROLES, Role, Setup
from headrace.report.benchmark_page import Column

COMPARED: Final[tuple[Role, ...]] = ("decode", "preprocess", "model")
"""Stages of L_dec : L_prep : L_inf; a transfer is not part of the ratio."""
TRACE: Final = "stages.trace.json.gz"
"""Name of the trace file, beside the record."""


class StagesRepetition(Repetition):
    """One repetition: all stages sequentially, batch after batch."""

    work_ms: dict[Role, tuple[NonNegativeFloat, ...]]
    """Role → wall time per batch."""
    cpu_ms: dict[Role, tuple[NonNegativeFloat, ...]]
    """Role → CPU time of the whole process per batch."""

    @property
    def batches(self) -> list[dict[Role, float]]:
        """Wall times of each batch, by role."""
        batches = zip(*self.work_ms.values(), strict=True)
        return [dict(zip(self.work_ms, batch, strict=True)) for batch in batches]


class StagesRecord(BenchmarkRecord):
    """Repetitions, and the setup of the model."""

    setup: Setup
    size: tuple[PositiveInt, PositiveInt]
    """(height, width) of the video."""
    model_seconds: NonNegativeFloat
    """Seconds to load and warm up the model, before all repetitions."""
    turns: tuple[StagesRepetition, ...]
    traced: NonNegativeInt = 0
    """Batches in the trace, recorded after all repetitions; 0: no trace."""


class StageRepetition(Repetition):
    """One stage in one repetition."""

    role: Role
    wall_ms_per_frame: tuple[NonNegativeFloat, ...]
    """Wall time of each batch."""
    cpu_ms_per_frame: tuple[NonNegativeFloat, ...]
    """CPU time of the whole process, of each batch."""

    @classmethod
    def of(cls, role: Role, whole: StagesRepetition, frames: int) -> Self:
        """Return one stage of a repetition with batches of `frames`."""
        wall_ms, cpu_ms = whole.work_ms[role], whole.cpu_ms[role]
        seconds, others = sum(wall_ms) / 1e3, whole.others_cpu_seconds
        return cls(
            role=role,
            seconds=seconds,
            cpu_seconds=sum(cpu_ms) / 1e3,
            others_cpu_seconds=None if others is None else others * seconds / whole.seconds,
            wall_ms_per_frame=tuple(ms / frames for ms in wall_ms),
            cpu_ms_per_frame=tuple(ms / frames for ms in cpu_ms),
        )

    @property
    def rate(self) -> float:
        """Frames per second of this stage alone, by the median batch."""
        return 1e3 / median(self.wall_ms_per_frame)

    @property
    def step_times(self) -> tuple[float, ...]:
        """Milliseconds of each batch."""
        return self.wall_ms_per_frame


@dataclass(frozen=True, kw_only=True)
class StagesRow(RepetitionRow[StageRepetition]):
    """One stage, over all batches of all repetitions."""

    role: Role
    ms: float
    """Wall milliseconds per frame, the median batch."""
    p95_ms: float | None
    """None with too few batches."""
    cpu_ms: float
    """CPU milliseconds per frame, the median batch."""
    share: float
    """Share of all stages together."""
    parts: float
    """Time ÷ that of the shortest of decode, preprocess and model."""
    batches: int


def rows_of(record: StagesRecord) -> tuple[StagesRow, ...]:
    """Return one row per stage, in pipeline order."""
    frames = record.setup.batch_size
    repetitions = {
        role: [StageRepetition.of(role, whole, frames) for whole in record.turns]
        for role in record.turns[0].work_ms
    }
    distributions = {
        role: RepetitionRow(repetitions=group).distribution(lambda timed: timed.wall_ms_per_frame)
        for role, group in repetitions.items()
    }
    min_ms = min(distributions[role].p50 for role in COMPARED)
    total_ms = sum(wall_ms.p50 for wall_ms in distributions.values())
    return tuple(
        StagesRow(
            role=role,
            repetitions=repetitions[role],
            ms=wall_ms.p50,
            p95_ms=wall_ms.p95,
            cpu_ms=median(ms for timed in repetitions[role] for ms in timed.cpu_ms_per_frame),
            share=wall_ms.p50 / total_ms,
            parts=wall_ms.p50 / min_ms,
            batches=wall_ms.count,
        )
        for role, wall_ms in distributions.items()
    )


def work_of(rows: Sequence[StagesRow]) -> dict[Role, StageWork]:
    """Return the work of each stage on a frame."""
    return {row.role: StageWork(ms=row.ms, cpu_ms=row.cpu_ms) for row in rows}


@dataclass(frozen=True, kw_only=True)
class Bound:
    """Bottleneck of a run with overlapping stages.

    A run decodes with one thread per core and has one thread for each other stage. So a frame takes
    at least the time of the slowest stage, and at least its CPU time divided by the cores.
    """

    role: Role
    """Slowest stage; if the cores are the bottleneck, the stage with the most CPU time."""
    is_cores: bool
    """Whether all cores together are the bottleneck."""
    ms: float
    """Lower bound, milliseconds per frame."""
    most: float
    """Largest gain of a faster stage: its time at 0."""

    @classmethod
    def of(cls, rows: Sequence[StagesRow], cores: int) -> Self:
        """Return the bottleneck for `cores` usable cores."""
        work = work_of(rows)
        alone = {role: alone_ms(role, stage_work, cores) for role, stage_work in work.items()}
        ms = pace_ms(work, cores)
        is_cores = sum(row.cpu_ms for row in rows) / cores >= max(alone.values())
        costs = {row.role: row.cpu_ms for row in rows} if is_cores else alone
        role = max(costs, key=lambda role: costs[role])
        rest = {other: stage_work for other, stage_work in work.items() if other != role}
        return cls(role=role, is_cores=is_cores, ms=ms, most=ms / pace_ms(rest, cores))

    @property
    def rate(self) -> float:
        """Upper bound, frames per second."""
        return 1e3 / self.ms


@dataclass(frozen=True, kw_only=True)
class StagesConfig(ThreadedModelConfig):
    """Options of `bench stages`."""

    one_video_of: ClassVar = "stages"
    batch_size: BatchSize = 8
    seconds: TurnSeconds = 4.0
    repeats: Annotated[int, Option("Number of repetitions.", least=1)] = 5
    tensorboard: Annotated[
        Path | None, Option("TensorBoard folder for the times of each batch and the trace.")
    ] = None


def _answer(record: StagesRecord, rows: tuple[StagesRow, ...]) -> tuple[Finding, ...]:
    noise, bound = record.noise(rows), Bound.of(rows, record.cores)
    change, total_ms = _change(record, rows, bound), sum(row.ms for row in rows)
    stage_ms = ", ".join(f"{row.role} {decimal(row.ms)}" for row in rows)
    evidence = [
        *([f"By the medians, {_ratio(rows)}."] if noise.doubt else []),
        f"Sequentially, a frame takes {stage_ms} ms: {decimal(total_ms)} ms in total, "
        f"{decimal(1e3 / total_ms)} frames/s.",
        *([] if noise.doubt else [_limit(rows, bound, record.cores)]),
        *([_ON_GPU] if record.setup.device != "cpu" else []),
        f"Not counted: {seconds(record.model_seconds)} of model startup, and a warm-up of about a "
        "second.",
        *([_TRACED.format(record.traced)] if record.traced else []),
        *noise.sentences("Repetitions of one stage"),
    ]
    return (
        Finding(
            headline=_headline(record, rows, noise),
            bound_by=() if noise.doubt else (bound.role,),
            evidence=tuple(evidence),
            change=AGAIN if noise.doubt else str(change),
            advice=None if noise.doubt else change,
        ),
    )


def _headline(record: StagesRecord, rows: Sequence[StagesRow], noise: NoiseCheck) -> str:
    if noise.cpu_time_reason and record.setup.device == "cpu":
        top = max(rows, key=lambda row: row.cpu_ms)
        stage_ms = ", ".join(f"{row.role} {decimal(row.cpu_ms)}" for row in rows)
        costliest = f"Costliest by CPU time: {ROLES[top.role].phrase} ({stage_ms} ms/frame)"
        return f"{costliest}. {noise.cpu_time_reason}"
    top = max(rows, key=lambda row: row.ms)
    phrase = ROLES[top.role].phrase
    share = f"{phrase}, {percent(top.share)} of the sequential time per frame"
    if not noise.doubt:
        return f"Costliest stage: {share}; {_ratio(rows)}"
    is_clear = all(top.rate.highest < row.rate.lowest for row in rows if row is not top)
    if is_clear and noise.spread > 0:  # of more than one repetition
        return f"Costliest stage: {phrase}, in every repetition. {noise.doubt} by how much"
    return f"{noise.doubt} which stage is costliest; by the medians, {share}"


def _ratio(rows: Sequence[StagesRow]) -> str:
    parts = {row.role: row.parts for row in rows}
    return f"L_dec : L_prep : L_inf = {ratio(tuple(parts[role] for role in COMPARED))}"


def _limit(rows: Sequence[StagesRow], bound: Bound, cores: int) -> str:
    phrase = ROLES[bound.role].phrase
    by = f"by {phrase}"
    if bound.is_cores:
        cpu_ms = next(row.cpu_ms for row in rows if row.role == bound.role)
        share = percent(cpu_ms / sum(row.cpu_ms for row in rows))
        by = f"by the {counted(cores, 'core')} ({phrase} takes {share} of their time)"
    gain = sum(row.ms for row in rows) / bound.ms
    return (
        "A run overlaps its stages and decodes with one thread per core: at best "
        f"{decimal(bound.rate)} frames/s, {decimal(gain)} times as fast, limited {by}. Writing "
        "results takes additional time."
    )


_ON_GPU: Final = (
    "Times are from the host's clock: a transfer ends at its CUDA event, the model when its labels "
    "are on the CPU, so the times include all work on the GPU."
)
_TRACED: Final = (
    f"Trace of {{}} more batches, for ui.perfetto.dev: {TRACE}. The profiler was off during the "
    "timings above."
)


def _change(record: StagesRecord, rows: Sequence[StagesRow], bound: Bound) -> Change:
    row = next(row for row in rows if row.role == bound.role)
    cost = (
        f"{decimal(row.cpu_ms)} ms/frame of CPU time"
        if bound.is_cores
        else f"{decimal(row.ms)} ms/frame"
    )
    change = lighter_work(row.role, record.setup, size=record.size, most=bound.most)
    return replace(change, evidence=f"{ROLES[row.role].phrase} takes {cost}")


STAGES: Final[Benchmark[StagesConfig, StagesRecord, StagesRow]] = Benchmark(
    name="stages",
    summary="Time decode, preprocess and model one at a time; give their ratio and a trace.",
    config=StagesConfig,
    record=StagesRecord,
    measure=deferred("stages_line:measure_stages"),
    title=lambda record: (
        f"Time by stage: {record.setup.model}, a video of {record.size[0]}×{record.size[1]}, "
        f"batches of {record.setup.batch_size}"
    ),
    rows=rows_of,
    columns=(
        Column("stage", lambda row: row.role),
        Column("ms", lambda row: decimal(row.ms)),
        p95_column(lambda row: row.p95_ms),
        Column("share", lambda row: percent(row.share)),
        Column("parts", lambda row: f"{row.parts:,.1f}"),
        Column("CPU ms", lambda row: decimal(row.cpu_ms)),
        *rate_columns("frames/s"),
    ),
    reading=lambda record, rows: (
        f"Milliseconds per frame, medians over {rows[0].batches:,} batches of "
        f"{counted(record.setup.batch_size, 'frame')}; one stage at a time, in one thread, with "
        "the profiler off. Parts: time ÷ the shortest of decode, preprocess and model. CPU ms: CPU "
        "time, above the wall time if several cores work. Frames/s: the stage alone, with its "
        "slowest and fastest repetition."
    ),
    answer=_answer,
    charts=lambda record, rows: (
        bars(
            [row.role for row in rows],
            {"median": [row.ms for row in rows], "p95": [row.p95_ms for row in rows]},
            "ms per frame",
            name="stages",
            title="Time per frame of each stage, run alone",
            reading="Over all batches, one stage at a time; p95 only with enough batches.",
            axis="stage",
        ),
    ),
    terms=SuiteSpec(
        config=lambda videos: StagesConfig(videos=videos[:1], repeats=3),
        seconds=40,
        work=lambda record: work_of(rows_of(record)),
    ),
)
