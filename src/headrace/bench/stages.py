"""What each stage of a run takes alone: decode, preprocess, model, one after the other."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Self

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from headrace.bench.benchmark import Benchmark, BenchmarkRecord, Context
from headrace.bench.charts import bars
from headrace.bench.config import ThreadedModelConfig
from headrace.bench.suite.suite_spec import StageWork, SuiteSpec, alone_ms, pace_ms
from headrace.config_fields import Option
from headrace.decode.open_decoder import open_index
from headrace.measuring.decode_counts import rate_columns
from headrace.measuring.interleaved import (
    AGAIN,
    MedianRange,
    NoiseCheck,
    Repetition,
    Stopwatch,
    cores_of_others,
    interleave,
)
from headrace.profiling.findings.advice import lighter_work
from headrace.profiling.findings.finding import Change, Finding
from headrace.profiling.number_format import TOO_SMALL, counted, decimal, percent, ratio, seconds
from headrace.profiling.run_records import Setup
from headrace.profiling.stage_records import ROLES, Role
from headrace.report.benchmark_page import Column
from headrace.report.drawing import Chart
from headrace.runtime.distribution import Distribution

if TYPE_CHECKING:
    from headrace.bench.stages_line import SequentialStages

_SETTLING_SECONDS: Final = 1.0
_FEWEST: Final = 3
"""Batches of a turn, however long they take."""
COMPARED: Final[tuple[Role, ...]] = ("decode", "preprocess", "model")
"""L_dec : L_prep : L_inf; a transfer to a device stands apart."""
TRACE: Final = "stages.trace.json.gz"
"""The file of the trace, beside the record."""


class StagesRepetition(Repetition):
    """All stages, one after the other, batch after batch."""

    work_ms: dict[Role, tuple[NonNegativeFloat, ...]]
    """Role -> wall time of its work on each batch."""
    cpu_ms: dict[Role, tuple[NonNegativeFloat, ...]]
    """Role -> processor time of the whole process meanwhile, on each batch."""

    @property
    def batches(self) -> list[dict[Role, float]]:
        """The wall times of each batch, by role."""
        batches = zip(*self.work_ms.values(), strict=True)
        return [dict(zip(self.work_ms, batch, strict=True)) for batch in batches]


class StagesRecord(BenchmarkRecord):
    """What was measured."""

    setup: Setup
    size: tuple[PositiveInt, PositiveInt]
    """(height, width) of the video."""
    model_seconds: NonNegativeFloat
    """Loading the model and warming it up; before all turns."""
    turns: tuple[StagesRepetition, ...]
    traced: NonNegativeInt = 0
    """Batches in the trace, taken when all turns were over; 0: none was written."""


@dataclass(frozen=True, kw_only=True)
class StagesRow:
    """One stage, over all batches of all turns."""

    role: Role
    ms: float
    """Wall time of its work on a frame, the median batch."""
    p95_ms: float | None
    """None after too few batches."""
    cpu_ms: float
    """Processor time on a frame, the median batch."""
    share: float
    """Of what all stages take together."""
    parts: float
    """So many times what the least of decode, preprocess and model takes."""
    batches: int
    rate: MedianRange
    """Frames per second of this stage alone, by turns."""
    others: float | None


def rows_of(record: StagesRecord) -> tuple[StagesRow, ...]:
    """Return a row for each stage, in the order the frames take."""
    frames, turns = record.setup.batch_size, record.turns
    found: dict[Role, Distribution] = {}
    for role in turns[0].work_ms:
        spent = Distribution.of([ms / frames for turn in turns for ms in turn.work_ms[role]])
        assert spent is not None
        found[role] = spent
    least, whole = min(found[role].p50 for role in COMPARED), sum(d.p50 for d in found.values())
    return tuple(
        StagesRow(
            role=role,
            ms=each.p50,
            p95_ms=each.p95,
            cpu_ms=median(ms / frames for turn in turns for ms in turn.cpu_ms[role]),
            share=each.p50 / whole,
            parts=each.p50 / least,
            batches=each.count,
            rate=MedianRange.of([1e3 * frames / median(turn.work_ms[role]) for turn in turns]),
            others=cores_of_others(turns),
        )
        for role, each in found.items()
    )


def work_of(rows: Sequence[StagesRow]) -> dict[Role, StageWork]:
    """Return what each stage does to a frame."""
    return {row.role: StageWork(ms=row.ms, cpu_ms=row.cpu_ms) for row in rows}


@dataclass(frozen=True, kw_only=True)
class Bound:
    """What would set the pace of a run in which every stage works at the same time.

    A run decodes with a thread for each core and has one thread for each other stage, so at best
    a frame takes as long as the slowest of them, or as all cores together need for it.
    """

    role: Role
    """The stage that would set it; of the cores, the one that takes most of them."""
    is_cores: bool
    """Whether the cores would set it, all of them busy, before any stage alone."""
    ms: float
    """Milliseconds per frame that are left, at best."""
    most: float
    """So many times as fast it would be if that stage took nothing at all."""

    @classmethod
    def of(cls, rows: Sequence[StagesRow], cores: int) -> Self:
        """Return what the rows of the stages tell, for so many usable cores."""
        work = work_of(rows)
        alone = {role: alone_ms(role, each, cores) for role, each in work.items()}
        ms = pace_ms(work, cores)
        is_cores = sum(row.cpu_ms for row in rows) / cores >= max(alone.values())
        takes = {row.role: row.cpu_ms for row in rows} if is_cores else alone
        role = max(takes, key=lambda role: takes[role])
        rest = {other: each for other, each in work.items() if other != role}
        return cls(role=role, is_cores=is_cores, ms=ms, most=ms / pace_ms(rest, cores))

    @property
    def rate(self) -> float:
        """Frames per second, at best."""
        return 1e3 / self.ms


@dataclass(frozen=True, kw_only=True)
class StagesConfig(ThreadedModelConfig):
    """What is measured."""

    one_video_of: ClassVar = "stages"
    batch_size: Annotated[int, Option("Frames in a batch.", least=1)] = 8
    seconds: Annotated[float, Option("How long a turn takes, about.", above=0, most=3600)] = 4.0
    repeats: Annotated[int, Option("Repetitions.", least=1)] = 5
    tensorboard: Annotated[
        Path | None, Option("Folder for TensorBoard: the times of each batch, and the trace.")
    ] = None


def measure_stages(config: StagesConfig, context: Context) -> StagesRecord:
    """Take batches through the stages of a run, one stage at a time; then some more for a trace.

    Raises:
        MediaError: the video cannot be read, or a frame is damaged.
        ConfigError, BackendError: the model cannot be had, or not run so.
    """
    from headrace.bench.overlap_work import ready_work
    from headrace.bench.stages_line import SequentialStages, check_log, write_log, write_stage_trace
    from headrace.models.precision_support import operation_threads
    from headrace.runs.model_setup import run_setup

    made, compute = context.provenance(config), config.compute_options(config.batch_size)
    check_log(config.tensorboard, context.clock)
    index = open_index(config.videos[0], context.store)
    context.on_progress("loading the model", 0, 0)
    with operation_threads(config.threads):
        work, model_seconds = ready_work(compute, context.clock)
        with closing(SequentialStages(index, work.model, compute, context.clock)) as line:
            turns = interleave(
                [config.seconds],
                lambda seconds: _turn(line, seconds, context),
                repeats=config.repeats,
                label=lambda seconds: "one stage at a time",
                warm_up=min(_SETTLING_SECONDS, config.seconds),
                on_progress=context.on_progress,
            )
            batches = (batch for turn in turns for batch in turn.batches)
            logs = write_log(batches, config.tensorboard, made)
            context.on_progress("taking a trace", 0, 0)
            path = context.out / TRACE if context.out else None
            traced = write_stage_trace(line, path, logs, context.clock)
    return StagesRecord(
        provenance=made,
        setup=run_setup(compute, work.model, made, draws_video=False),
        size=index.info.upright_size,
        model_seconds=model_seconds,
        turns=turns,
        traced=traced,
    )


def _turn(line: "SequentialStages", seconds: float, context: Context) -> StagesRepetition:
    watch = Stopwatch(context.clock)
    batches: list[dict[Role, tuple[int, int]]] = []
    while len(batches) < _FEWEST or watch.seconds < seconds:
        batches.append(line.take())
    spent = watch.turn(watch.seconds)
    return StagesRepetition(
        **spent.model_dump(),
        work_ms={role: tuple(each[role][0] / 1e6 for each in batches) for role in line.roles},
        cpu_ms={role: tuple(each[role][1] / 1e6 for each in batches) for role in line.roles},
    )


def _answer(record: StagesRecord, rows: tuple[StagesRow, ...]) -> tuple[Finding, ...]:
    trust, bound = record.trust(rows), Bound.of(rows, record.cores)
    change, whole = _change(record, rows, bound), sum(row.ms for row in rows)
    spent = ", ".join(f"{row.role} {decimal(row.ms)}" for row in rows)
    evidence = [
        *([f"By the medians {_ratio(rows)}."] if trust.doubt else []),
        f"One after the other a frame takes {spent} ms: {decimal(whole)} ms, "
        f"{decimal(1e3 / whole)} frames/s.",
        *([] if trust.doubt else [_limit(rows, bound, record.cores)]),
        *([_ON_GPU] if record.setup.device != "cpu" else []),
        f"The model was ready after {seconds(record.model_seconds)}; that, and the batches of "
        "about a second before the first turn, are left out.",
        *([_TRACED.format(record.traced)] if record.traced else []),
        *trust.sentences("Repetitions of one stage"),
    ]
    return (
        Finding(
            headline=_headline(rows, trust),
            bound_by=() if trust.doubt else (bound.role,),
            evidence=tuple(evidence),
            change=AGAIN if trust.doubt else str(change),
            advice=None if trust.doubt else change,
        ),
    )


def _headline(rows: Sequence[StagesRow], trust: NoiseCheck) -> str:
    top = max(rows, key=lambda row: row.ms)
    phrase = ROLES[top.role].phrase
    costs = f"{phrase}, {percent(top.share)} of what a frame takes"
    if not trust.doubt:
        return f"Costliest in sequence is {costs}; {_ratio(rows)}"
    is_clear = all(top.rate.highest < row.rate.lowest for row in rows if row is not top)
    if is_clear and trust.spread > 0:  # of more than one turn
        return f"Costliest in sequence is {phrase}, in every turn. {trust.doubt} by how much"
    return f"{trust.doubt} which stage is the costliest; by the medians {costs}"


def _ratio(rows: Sequence[StagesRow]) -> str:
    parts = {row.role: row.parts for row in rows}
    return f"L_dec : L_prep : L_inf = {ratio(tuple(parts[role] for role in COMPARED))}"


def _limit(rows: Sequence[StagesRow], bound: Bound, cores: int) -> str:
    phrase = ROLES[bound.role].phrase
    by = f"by {phrase}"
    if bound.is_cores:
        took = next(row.cpu_ms for row in rows if row.role == bound.role)
        share = percent(took / sum(row.cpu_ms for row in rows))
        by = f"by the {counted(cores, 'core')}, {share} of whose time {phrase} takes"
    gain = sum(row.ms for row in rows) / bound.ms
    return (
        "A run overlaps its stages, and decodes in a thread for each core: at best "
        f"{decimal(bound.rate)} frames/s, {decimal(gain)} times as fast, bound {by}; what it "
        "writes comes on top."
    )


_ON_GPU: Final = (
    "Times are those of the host's clock: a transfer ends when its event has come, the model "
    "when its labels are on the CPU, so that all the work on the GPU is in them."
)
_TRACED: Final = (
    f"A trace of {{}} more batches, for ui.perfetto.dev: {TRACE}. The profiler was off while the "
    "times above were taken."
)


def _change(record: StagesRecord, rows: Sequence[StagesRow], bound: Bound) -> Change:
    row = next(row for row in rows if row.role == bound.role)
    took = (
        f"{decimal(row.cpu_ms)} ms of processor time" if bound.is_cores else f"{decimal(row.ms)} ms"
    )
    setup, most = record.setup, bound.most
    change = lighter_work(row.role, setup, size=record.size, most=most)
    return replace(change, evidence=f"{ROLES[row.role].phrase} takes {took} a frame")


def _chart(rows: tuple[StagesRow, ...]) -> Chart:
    return bars(
        [row.role for row in rows],
        {"median": [row.ms for row in rows], "p95": [row.p95_ms for row in rows]},
        "ms per frame",
        name="stages",
        title="What each stage takes of a frame, alone",
        reading="Over the batches, one stage at a time; p95 where they are enough to tell it.",
        axis="stage",
    )


STAGES: Final[Benchmark[StagesConfig, StagesRecord, StagesRow]] = Benchmark(
    name="stages",
    summary="Time decode, preprocess and model one at a time; give their ratio and a trace.",
    config=StagesConfig,
    record=StagesRecord,
    measure=measure_stages,
    title=lambda record: (
        f"Time by stage: {record.setup.model}, a video of {record.size[0]}×{record.size[1]}, "
        f"batches of {record.setup.batch_size}"
    ),
    rows=rows_of,
    columns=(
        Column("stage", lambda row: row.role),
        Column("ms", lambda row: decimal(row.ms)),
        Column("p95 ms", lambda row: decimal(row.p95_ms, TOO_SMALL)),
        Column("share", lambda row: percent(row.share)),
        Column("parts", lambda row: f"{row.parts:,.1f}"),
        Column("CPU ms", lambda row: decimal(row.cpu_ms)),
        *rate_columns("frames/s"),
    ),
    reading=lambda record, rows: (
        f"Milliseconds per frame, medians over {rows[0].batches:,} batches of "
        f"{counted(record.setup.batch_size, 'frame')}; one stage works at a time, in one thread, "
        "with the profiler off. Parts are counted in what the least of decode, preprocess and "
        "model takes. CPU is processor time: more than the time itself where several cores work. "
        "Slowest and fastest are frames per second of the stage alone, by turns."
    ),
    answer=_answer,
    charts=lambda record, rows: (_chart(rows),),
    names_machine=True,
    terms=SuiteSpec(
        config=lambda videos: StagesConfig(videos=videos[:1], repeats=3),
        seconds=40,
        work=lambda record: work_of(rows_of(record)),
    ),
)
