"""Prefetch benchmark: prefetch_factor and pin_memory of a stock DataLoader."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median, pstdev
from typing import Annotated, Final

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from headrace.bench.benchmark import Benchmark, BenchmarkRecord, SuiteSpec, deferred
from headrace.bench.charts import Line, lines
from headrace.bench.config import ClipsConfig
from headrace.bench.ladder import Saturation
from headrace.cached_property import cached_property
from headrace.config_fields import Option
from headrace.measuring.decode_counts import median_column, p95_column, rate_columns
from headrace.measuring.interleaved import AGAIN, ALIKE, NoiseCheck, Repetition, RepetitionRow
from headrace.profiling.findings.finding import Change, Finding
from headrace.profiling.number_format import counted, decimal, megabytes, milliseconds, times
from headrace.report.benchmark_page import Column
from headrace.report.page import MARK, PLAIN, Chart
from headrace.runtime.distribution import Distribution

DEFAULT_FACTOR: Final = 2
"""Default prefetch_factor of a DataLoader."""


@dataclass(frozen=True, kw_only=True)
class PrefetchConfig(ClipsConfig):
    """Options of `bench prefetch`."""

    prefetch_factor: Annotated[
        tuple[int, ...], Option("Batches that each worker prefetches.", least=1)
    ] = (1, 2, 4, 8)
    workers: Annotated[int, Option("num_workers of the DataLoader.", least=1)] = 1
    step_ms: Annotated[
        float | None,
        Option("Milliseconds per training step; default: loading time.", least=0, most=60_000),
    ] = None
    seconds: Annotated[
        float,
        Option("Approximate seconds per repetition; at most 300 batches.", above=0, most=3600),
    ] = 5.0
    repeats: Annotated[int, Option("Repetitions per setting.", least=1)] = 3


class PrefetchRepetition(Repetition):
    """One repetition of one setting. A batch ends with its training step."""

    prefetch_factor: PositiveInt
    is_pinned: bool
    frames: PositiveInt
    """Frames trained on."""
    intervals_ms: tuple[NonNegativeFloat, ...]
    """Milliseconds from the end of one batch to the end of the next."""
    waits_ms: tuple[NonNegativeFloat, ...]
    """Wait for each batch."""
    copies_ms: tuple[NonNegativeFloat, ...] = ()
    """Time each transfer to the GPU blocked the loop; empty without a GPU."""
    memory_bytes: NonNegativeInt
    """Memory of all processes at the last batch; shared memory is counted once."""

    @property
    def rate(self) -> float:
        """Frames per second."""
        return self.frames / self.seconds

    @property
    def step_times(self) -> tuple[float, ...]:
        """Milliseconds from batch to batch."""
        return self.intervals_ms


class PrefetchRecord(BenchmarkRecord):
    """Repetitions of all settings."""

    workers: PositiveInt
    batch_frames: PositiveInt
    """Frames of a batch."""
    batch_bytes: PositiveInt
    load_ms: PositiveFloat
    """Mean time to load a batch without a training step."""
    step_ms: NonNegativeFloat
    """Time of a training step."""
    turns: tuple[PrefetchRepetition, ...]


@dataclass(frozen=True, kw_only=True)
class PrefetchRow(RepetitionRow[PrefetchRepetition]):
    """Repetitions of one setting."""

    @property
    def factor(self) -> int:
        """`prefetch_factor`."""
        return self.first.prefetch_factor

    @property
    def is_pinned(self) -> bool:
        """Whether batches were in pinned memory."""
        return self.first.is_pinned

    @property
    def jitter_ms(self) -> float:
        """Standard deviation of the intervals between batches."""
        return self.median(lambda repetition: pstdev(repetition.intervals_ms))

    @cached_property
    def waits(self) -> Distribution:
        """Waits of all repetitions, milliseconds."""
        return self.distribution(lambda repetition: repetition.waits_ms)

    @property
    def copy_ms(self) -> float | None:
        """Median transfer time; None without a GPU."""
        copies = [ms for repetition in self.repetitions for ms in repetition.copies_ms]
        return median(copies) if copies else None


_PINNED_MEMORY: Final = (
    "Pinned memory is page-locked: the GPU copies from it by DMA, so "
    "batch.to('cuda', non_blocking=True) returns at once and the copy overlaps with computation. "
    "From pageable memory, the loop waits for the copy.",
    "It costs one more copy in main memory, by a thread of the DataLoader, and memory that the "
    "system can neither move nor swap out.",
)


def pinning(rows: Sequence[PrefetchRow], point: PrefetchRow, noise: NoiseCheck) -> Finding:
    """Return the gain of pinned memory at the depth of `point`, or the reason it is unknown."""
    pinned = next((row for row in rows if row.is_pinned and row.factor == point.factor), None)
    if pinned is None or pinned.copy_ms is None or point.copy_ms is None:
        return Finding(
            headline="pin_memory was not measured: it has no effect without a GPU",
            evidence=("Without a GPU, PyTorch ignores it with a warning.", *_PINNED_MEMORY),
        )
    gain = pinned.rate.median / point.rate.median
    rates = f"{decimal(pinned.rate.median)} frames/s, {decimal(point.rate.median)} without it"
    headline = f"With pin_memory the loop is {times(gain)} as fast: {rates}"
    if noise.doubt:
        headline = f"{noise.doubt} what pin_memory gains; by the medians, {rates}"
    elif ALIKE <= gain <= 1 / ALIKE:
        headline = f"pin_memory makes no difference to the rate: {rates}"
    copies = (
        f"The transfer of a batch blocks the loop for {milliseconds(pinned.copy_ms)} from pinned "
        f"memory (non_blocking=True), for {milliseconds(point.copy_ms)} from pageable memory."
    )
    change = Change(
        words="pin_memory=True, and batch.to('cuda', non_blocking=True)", gain=gain, evidence=rates
    )
    is_worth_it = gain > 1 / ALIKE and not noise.doubt
    return Finding(
        headline=headline,
        evidence=(copies, *_PINNED_MEMORY),
        change=AGAIN if noise.doubt else str(change) if is_worth_it else None,
        advice=change if is_worth_it else None,
    )


def _label(row: PrefetchRow) -> str:
    return f"prefetch_factor={row.factor}"


def _saturation(rows: Sequence[PrefetchRow]) -> Saturation[PrefetchRow]:
    return Saturation(
        rows=[row for row in rows if not row.is_pinned],
        unit="frames/s",
        label=_label,
        setting=_label,
        surplus="more only buffers more batches",
        further="a larger --prefetch-factor",
    )


def _answer(record: PrefetchRecord, rows: tuple[PrefetchRow, ...]) -> tuple[Finding, ...]:
    noise, saturation = record.noise(rows), _saturation(rows)
    point, batch_bytes = saturation.point, record.batch_bytes
    slower_ms, workers = max(record.load_ms, record.step_ms), counted(record.workers, "worker")
    evidence = [
        *saturation.rule("the smallest depth"),
        f"A training step takes {milliseconds(record.step_ms)}; {workers} "
        f"{'loads' if record.workers == 1 else 'load'} a batch every "
        f"{milliseconds(record.load_ms)}: at best about "
        f"{decimal(record.batch_frames * 1e3 / slower_ms)} frames/s. A deeper prefetch evens out "
        "slow batches; it does not speed up loading.",
        _steadiness(saturation),
        f"prefetch_factor × num_workers batches of {megabytes(batch_bytes)} are prefetched: "
        f"{megabytes(point.factor * record.workers * batch_bytes)} with {_label(point)}.",
        *noise.sentences("Repetitions of one setting"),
    ]
    depth, advice = saturation.finding(noise, evidence), None
    if len(saturation.rows) > 1 and not noise.doubt:
        advice = Change(words=f"{_label(point)} for the DataLoader")
        for base in (row for row in saturation.rows if row.factor == DEFAULT_FACTOR):
            rates = f"{saturation.rate(point)} against {saturation.rate(base)} with the default"
            gain = point.rate.median / base.rate.median
            advice = replace(advice, gain=gain, evidence=f"{rates} of {DEFAULT_FACTOR}")
    return replace(depth, advice=advice), pinning(rows, point, noise)


def _steadiness(saturation: Saturation[PrefetchRow]) -> str:
    first, last = saturation.rows[0], saturation.rows[-1]
    other = last if saturation.point is first else saturation.point
    jitter, wait = milliseconds(first.jitter_ms), milliseconds(first.waits.mean)
    if other is not first:
        jitter += f" with {_label(first)} and {milliseconds(other.jitter_ms)}"
        wait += f" and {milliseconds(other.waits.mean)}"
    return (
        f"Latency jitter (std of the intervals between batches) is {jitter} with "
        f"{_label(first) if other is first else other.factor}; the mean wait for a batch is "
        f"{wait}."
    )


def _charts(rows: tuple[PrefetchRow, ...]) -> tuple[Chart, ...]:
    plain = [row for row in rows if not row.is_pinned]
    pinned = [row for row in rows if row.is_pinned]
    jitter_and_wait = [
        Line(
            name + suffix,
            [(row.factor, figure(row)) for row in group],
            color=color,
            is_dotted=bool(suffix),
        )
        for suffix, group in (("", plain), (", pinned", pinned))
        if group
        for name, color, figure in _JITTER_AND_WAIT
    ]
    rates = [(row.factor, row.rate) for row in pinned]
    return (
        _saturation(rows).chart(
            lambda row: row.factor,
            *([Line("pinned", rates, color="#5ea58c", is_dotted=True)] if pinned else []),
            axis="prefetch_factor",
            name="prefetch",
            title="Frames per second by prefetch_factor",
            reading="Frames ÷ time of the loop; bars span the slowest to the fastest repetition. "
            "Ring: saturation, the smallest depth above the dashed line.",
        ),
        lines(
            jitter_and_wait,
            name="waits",
            title="Jitter and wait by prefetch_factor",
            reading="Jitter: standard deviation of the intervals between batches. Wait: time the "
            "loop waits for a batch. Both fall while a deeper prefetch evens out slow batches.",
            x={"title_text": "prefetch_factor", "tickvals": [row.factor for row in plain]},
            y="ms",
        ),
    )


_JITTER_AND_WAIT: Final[tuple[tuple[str, str, Callable[[PrefetchRow], float]], ...]] = (
    ("jitter", PLAIN, lambda row: row.jitter_ms),
    ("mean wait", MARK, lambda row: row.waits.mean),
)


PREFETCH: Final[Benchmark[PrefetchConfig, PrefetchRecord, PrefetchRow]] = Benchmark(
    name="prefetch",
    summary="Time a training loop by prefetch_factor of a DataLoader; on a GPU, also pinned.",
    config=PrefetchConfig,
    record=PrefetchRecord,
    measure=deferred("prefetch_loop:measure_prefetch"),
    title=lambda record: (
        "Frames per second by prefetch_factor: batches of "
        f"{counted(record.batch_frames, 'frame')}, {counted(record.workers, 'worker')}"
    ),
    rows=lambda record: PrefetchRow.by(
        lambda repetition: (repetition.is_pinned, repetition.prefetch_factor), record.turns
    ),
    columns=(
        Column("prefetch", lambda row: str(row.factor)),
        Column("pinned", lambda row: "yes" if row.is_pinned else "no"),
        *rate_columns("frames/s"),
        Column("jitter ms", lambda row: decimal(row.jitter_ms)),
        Column("wait ms", lambda row: decimal(row.waits.mean)),
        p95_column(lambda row: row.waits.p95),
        Column("copy ms", lambda row: decimal(row.copy_ms)),
        median_column("MB", lambda repetition: repetition.memory_bytes / 1e6),
    ),
    reading="Medians over the repetitions, with the same clips for every setting. The first "
    "batches of a repetition, during worker startup, are not counted. Jitter: standard deviation "
    "of the intervals between batches. Wait (mean, p95): time the loop waits for a batch. Copy: "
    "time a transfer to the GPU blocks the loop. MB: memory of all processes at the end of a "
    "repetition; shared memory is counted once.",
    answer=_answer,
    charts=lambda record, rows: _charts(rows),
    terms=SuiteSpec(concerns="loading"),
)
