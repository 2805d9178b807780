"""Pipelining benchmark: stages sequential, in threads and in processes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import Annotated, Final, Literal, get_args

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from headrace.bench.benchmark import Benchmark, BenchmarkRecord, StageWork, SuiteSpec, deferred
from headrace.bench.charts import Charts, bars
from headrace.bench.config import ThreadedModelConfig, TurnSeconds
from headrace.bench.variant_benchmark import Ranking
from headrace.cached_property import cached_property
from headrace.config_fields import Option
from headrace.measuring.decode_counts import p95_column, rate_columns
from headrace.measuring.interleaved import AGAIN, Repetition, RepetitionRow, grouped
from headrace.profiling.findings.finding import Change, Finding
from headrace.profiling.number_format import (
    counted,
    decimal,
    listing,
    milliseconds,
    percent,
    seconds,
)
from headrace.profiling.run_records import ROLES, Role
from headrace.report.benchmark_page import Column
from headrace.runtime.distribution import Distribution

Variant = Literal["sequential", "threads", "processes"]
VARIANTS: Final[tuple[Variant, ...]] = get_args(Variant)

OFFERED: Final = 0.7
"""Offered rate for latency ÷ the sequential rate at full speed: low enough that every variant
keeps up, so that latency does not measure queues."""


@dataclass(frozen=True, kw_only=True)
class OverlapConfig(ThreadedModelConfig):
    """Options of `bench overlap`."""

    threads: Annotated[
        int | None,
        Option("Intra-op threads of PyTorch; with 1, only stages run in parallel.", least=1),
    ] = 1
    seconds: TurnSeconds = 3.0
    repeats: Annotated[
        int, Option("Repetitions per variant, at full speed and paced.", least=1)
    ] = 2


class OverlapRepetition(Repetition):
    """One repetition of one variant."""

    way: Variant
    fps: PositiveFloat
    """(N - 1) ÷ (last frame out - first frame out) of the counted frames."""
    latency_ms: tuple[float, ...] = ()
    """Latency of each counted frame, from its due time until shown; empty at full speed."""
    work_ms: dict[str, NonNegativeFloat]
    """Stage → mean work on a frame."""

    @property
    def rate(self) -> float:
        """Frames per second."""
        return self.fps


class OverlapRecord(BenchmarkRecord):
    """Repetitions of all variants, at full speed and paced."""

    videos: PositiveInt
    frames: PositiveInt
    """Counted frames of a repetition."""
    settling: NonNegativeInt
    """Uncounted frames before them."""
    offered_fps: PositiveFloat
    """Rate at which latency was measured."""
    model_seconds: NonNegativeFloat
    """Seconds to load and warm up the model, before all repetitions."""
    processes_seconds: NonNegativeFloat
    """Seconds to start the processes with their models, before all repetitions."""
    compared: PositiveInt
    """Frames with equal class, confidence and image in every repetition."""
    turns: tuple[OverlapRepetition, ...]


_KEEPS_UP: Final = 0.95
"""Min share of the offered rate for a variant to keep up."""
_OTHER: Final[dict[str, str]] = {
    "sequential": "A sequential loop, if only the rate matters",
    "processes": "Several runs in parallel, because stages in processes use more of the cores",
}
"""Variants that may be faster than a run's threads → advice."""
_OURS: Final[Variant] = "threads"
"""Variant of headrace run and headrace.live."""
_SPARE: Final = 0.9
"""Min share of busy cores at which cores limit the sequential variant."""


@dataclass(frozen=True, kw_only=True)
class OverlapRow(RepetitionRow[OverlapRepetition]):
    """Repetitions of one variant at full speed."""

    paced: Sequence[OverlapRepetition]
    """Repetitions at the common rate."""

    @property
    def variant(self) -> Variant:
        """Its name."""
        return self.first.way

    @property
    def series(self) -> tuple[Sequence[OverlapRepetition], ...]:
        """Repetitions at full speed, and paced."""
        return self.repetitions, self.paced

    @cached_property
    def latency(self) -> Distribution:
        """Latency of all paced repetitions, milliseconds."""
        return replace(self, repetitions=self.paced).distribution(lambda timed: timed.latency_ms)

    @cached_property
    def work_ms(self) -> dict[str, float]:
        """Stage → mean work on a frame."""
        return {
            stage: mean(repetition.work_ms[stage] for repetition in self.repetitions)
            for stage in self.first.work_ms
        }

    @property
    def longest(self) -> str:
        """Stage with the most work."""
        return max(self.work_ms, key=lambda stage: self.work_ms[stage])

    @property
    def overlapped(self) -> float:
        """Sum of the stages' work ÷ that of the longest stage: the gain of perfect overlap."""
        return sum(self.work_ms.values()) / self.work_ms[self.longest]

    def spare(self, cores: int) -> float:
        """Return usable cores ÷ busy cores; all variants use equal CPU time per frame."""
        return cores / self.cores if self.cores > 0 else float(cores)

    def bound(self, cores: int) -> float:
        """Return the largest possible gain on this rate; at least 1."""
        return max(1.0, min(self.overlapped, self.spare(cores)))


Rows = tuple[OverlapRow, ...]


def rows_of(record: OverlapRecord) -> Rows:
    """Return one row per variant."""
    groups = grouped(record.turns, lambda timed: (timed.way, bool(timed.latency_ms)))
    return tuple(
        OverlapRow(repetitions=group, paced=groups[way, True])
        for (way, is_paced), group in groups.items()
        if not is_paced
    )


def _answer(record: OverlapRecord, rows: Rows) -> tuple[Finding, ...]:
    ranking = Ranking.of(record, rows, "frames")
    best, rate = ranking.best, ranking.rate(ranking.best)
    times = f"{decimal(ranking.times(best))} times sequential"
    headline = ranking.headline(
        f"which variant is fastest; by the medians, {best.variant}: {rate}",
        won=f"Fastest: {' and '.join(ranking.alike)}, {rate}, {times}",
        even=f"Overlap gains nothing: {ranking.rate(rows[0])} sequentially",
    )
    change = AGAIN if ranking.noise.doubt else _change(ranking, rows[0], record.cores)
    advice = None
    if not ranking.noise.doubt and _OURS not in ranking.alike:
        threads_rate = next(row.rate.median for row in rows if row.variant == _OURS)
        advice = Change(
            words=_OTHER[best.variant],
            gain=best.rate.median / threads_rate,
            evidence=f"{rate} against {decimal(threads_rate)} in threads, as in headrace run",
        )
    evidence = (*_evidence(record, rows), *ranking.noise.sentences("Repetitions of one variant"))
    return (Finding(headline=headline, evidence=evidence, change=change, advice=advice),)


def _evidence(record: OverlapRecord, rows: Rows) -> Iterator[str]:
    first, *others = rows
    cores = record.cores
    work = ", ".join(f"{stage} {decimal(ms)}" for stage, ms in first.work_ms.items())
    limit = "allow this gain"
    if first.spare(cores) < first.overlapped:
        limit = f"allow only {decimal(first.bound(cores))} times"
    yield (
        f"Sequentially, a frame takes {work} ms: overlap gains at most sum ÷ max = "
        f"{decimal(first.overlapped)} times. The sequential variant keeps {decimal(first.cores)} "
        f"of {counted(cores, 'core')} busy, so the cores {limit}."
    )
    latencies = [f"{first.variant} {milliseconds(first.latency.mean)}"]
    for row in others:
        more = row.latency.mean - first.latency.mean
        sign = "+" if more >= 0 else "-"
        latencies.append(f"{row.variant} {sign}{milliseconds(abs(more))}")
    min_fps, keeping_up = _KEEPS_UP * record.offered_fps, "all variants keep up"
    late: list[str] = [
        row.variant for row in rows if min(repetition.fps for repetition in row.paced) < min_fps
    ]
    if late:
        keeping_up = f"{listing(late)} did not always keep up, so it includes queueing"
    yield (
        f"Mean latency at {decimal(record.offered_fps)} frames/s ({keeping_up}): "
        f"{', '.join(latencies)}. Overlap raises the rate, not the speed of a single frame."
    )
    yield (
        f"Not counted: startup of the model ({seconds(record.model_seconds)}) and of the processes "
        f"with their models ({seconds(record.processes_seconds)})."
    )
    yield (
        f"{counted(record.compared, 'frame')} had equal class, confidence and image in all "
        "variants."
    )


def _change(ranking: Ranking, first: OverlapRow, cores: int) -> str:
    gains_nothing = first.variant in ranking.alike
    if gains_nothing and first.spare(cores) < 1 / _SPARE:
        return (
            "More cores: all are busy already, because PyTorch uses several per operation. Their "
            "gain is unknown until it is tried."
        )
    if gains_nothing:
        return f"A faster {first.longest}: overlap costs as much as it gains."
    more = ", or more cores" if first.spare(cores) < first.overlapped else ""
    if ranking.times(ranking.best) >= _SPARE * first.bound(cores):
        return f"A faster {first.longest}{more}: overlap has no more to gain."
    if _OURS in ranking.alike:
        return "No change: headrace run and headrace.live already use threads."
    return (
        "Several runs in parallel: processes gain more than threads here, because threads share "
        "the GIL."
    )


def _charts(rows: Rows) -> Charts:
    names, first = [row.variant for row in rows], rows[0]
    return (
        bars(
            names,
            {"frames/s": [row.rate for row in rows]},
            "frames/s",
            name="rates",
            title="Frames per second, at full speed",
            reading="Dashed line: the rate with perfect overlap of the stages and enough cores.",
            axis="variant",
            limit=("sum ÷ max of the stages", first.rate.median * first.overlapped),
        ),
        bars(
            names,
            {"mean": [row.latency.mean for row in rows], "p95": [row.latency.p95 for row in rows]},
            "ms",
            name="latency",
            title="Latency, paced",
            reading="From the due time of a frame until it was shown, at one rate for all: "
            f"{percent(OFFERED)} of the sequential rate.",
            axis="variant",
        ),
        bars(
            names,
            {stage: [row.work_ms.get(stage) for row in rows] for stage in first.work_ms},
            "ms per frame",
            name="work",
            title="Work on a frame, by stage",
            reading="Wall time of each stage at full speed. Stages that run at the same time share "
            "the cores, so each takes longer than alone. With processes, the model's work includes "
            "the transfer.",
            axis="variant",
            is_stacked=True,
        ),
    )


def _work(record: OverlapRecord) -> dict[Role, StageWork]:
    """Return the sequential work of each stage on a frame; a CPU stage uses one core."""
    sequential, *_ = rows_of(record)
    on_device = record.provenance.configuration.get("device", "cpu") != "cpu"
    ms_of = {"sink" if stage == "show" else stage: ms for stage, ms in sequential.work_ms.items()}
    return {
        role: StageWork(
            ms=ms_of[role],
            cpu_ms=0.0 if on_device and role in ("transfer", "model") else ms_of[role],
        )
        for role in ROLES
        if role in ms_of
    }


OVERLAP: Final[Benchmark[OverlapConfig, OverlapRecord, OverlapRow]] = Benchmark(
    name="overlap",
    summary="Time decode, preprocess, model and display: sequential, in threads, in processes.",
    config=OverlapConfig,
    record=OverlapRecord,
    measure=deferred("overlap_variants:measure_overlap"),
    title=lambda record: (
        f"Frames per second and latency: {counted(record.frames, 'frame')} per repetition, "
        f"{counted(record.videos, 'video')}"
    ),
    rows=rows_of,
    columns=(
        Column("variant", lambda row: row.variant),
        *rate_columns("frames/s"),
        Column("CPU", lambda row: percent(row.cores)),
        Column("mean ms", lambda row: decimal(row.latency.mean)),
        p95_column(lambda row: row.latency.p95),
    ),
    reading=lambda record, rows: (
        "Frames per second at full speed, medians over the repetitions, with CPU time ÷ wall time. "
        f"Latency (mean, p95) at {decimal(record.offered_fps)} frames/s, from the due time of a "
        "frame. Not counted: startup of model and processes, and the first "
        f"{counted(record.settling, 'frame')} of each repetition."
    ),
    answer=_answer,
    charts=lambda record, rows: _charts(rows),
    terms=SuiteSpec(seconds=60, work=_work),
)
