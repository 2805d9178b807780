"""Prefetch benchmark: prefetch_factor and pin_memory of a stock DataLoader."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise, product
from statistics import mean, median, pstdev
from typing import Annotated, Any, Final

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from headrace.bench.benchmark import Benchmark, BenchmarkRecord, Context, SuiteSpec
from headrace.bench.charts import Line, lines
from headrace.bench.config import ClipsConfig
from headrace.bench.ladder import Saturation
from headrace.cached_property import cached_property
from headrace.config_fields import Option
from headrace.measuring.decode_counts import median_column, p95_column, rate_columns
from headrace.measuring.interleaved import (
    AGAIN,
    ALIKE,
    NoiseCheck,
    Repetition,
    RepetitionRow,
    Stopwatch,
    interleave,
)
from headrace.profiling.findings.finding import Change, Finding
from headrace.profiling.number_format import counted, decimal, megabytes, milliseconds, times
from headrace.profiling.resource_usage import memory_bytes
from headrace.report.benchmark_page import Column
from headrace.report.page import MARK, PLAIN, Chart
from headrace.runtime.distribution import Distribution
from headrace.runtime.waitable_source import Waiter

DEFAULT_FACTOR: Final = 2
"""Default prefetch_factor of a DataLoader."""
_MIN_BATCHES, _MAX_BATCHES = 12, 300
"""Min and max counted batches of a repetition; the calibration has the minimum."""


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
    batch_bytes: PositiveInt
    load_ms: PositiveFloat
    """Mean time to load a batch without a training step."""
    step_ms: NonNegativeFloat
    turns: tuple[PrefetchRepetition, ...]


def _measure(config: PrefetchConfig, context: Context) -> PrefetchRecord:
    """Time a loop over the same clips with every setting, interleaved, after a calibration.

    Raises:
        MediaError, ConfigError, StageError: a video cannot be read, or is too short for a clip; a
            worker failed, with its message.
    """
    from torch.cuda import is_available

    provenance = context.provenance(config)
    context.on_progress("calibrating", 0, 0)
    with closing(PrefetchLoop(config, _MIN_BATCHES, context)) as calibration:
        load_ms = mean(calibration.take(DEFAULT_FACTOR, 0.0).intervals_ms)
    step_ms = load_ms if config.step_ms is None else config.step_ms
    fitting = round(config.seconds * 1e3 / max(load_ms, step_ms))
    settings = list(product((False, *[True] * is_available()), sorted(config.prefetch_factor)))
    batches = min(_MAX_BATCHES, max(_MIN_BATCHES, fitting))
    with closing(PrefetchLoop(config, batches, context)) as training:
        repetitions = interleave(
            settings,
            lambda setting: training.take(setting[1], step_ms, is_pinned=setting[0]),
            repeats=config.repeats,
            label=lambda setting: f"prefetch_factor={setting[1]}{', pinned' * setting[0]}",
            on_progress=context.on_progress,
        )
    height, width = config.size
    batch_frames = config.batch_size * config.clip_len
    return PrefetchRecord(
        provenance=provenance,
        workers=config.workers,
        batch_frames=batch_frames,
        batch_bytes=batch_frames * height * width * 3,
        load_ms=load_ms,
        step_ms=step_ms,
        turns=repetitions,
    )


class PrefetchLoop:
    """Training loop over the same clips on a stock DataLoader; close it after use.

    A step sleeps instead of computing, because training on a GPU leaves the CPU to the workers.
    """

    def __init__(self, config: PrefetchConfig, batches: int, context: Context) -> None:
        """Open the videos, without decoding; a repetition counts `batches`."""
        self._config, self._batches, self._clock = config, batches, context.clock
        self._waiter = Waiter(context.clock)
        self._settling = 2 * config.workers  # uncounted batches
        # More batches than counted, so that workers can prefetch until the last one.
        ahead = max(config.prefetch_factor) * config.workers
        items = (self._settling + batches + ahead) * config.batch_size
        self._clips = config.dataset(-(-items // len(config.videos)), context.store)
        self.close = self._clips.close

    def take(self, factor: int, step_ms: float, *, is_pinned: bool = False) -> PrefetchRepetition:
        """Train on the clips, worker startup included; time the counted batches."""
        from torch.utils.data import DataLoader

        from headrace.measuring.loader_adapters import ignore_worker_warning, iterate_batches

        clock, config, copies_ms = self._clock, self._config, list[float]()
        with ignore_worker_warning():
            loader = DataLoader(
                self._clips,
                batch_size=config.batch_size,
                num_workers=config.workers,
                prefetch_factor=factor,
                pin_memory=is_pinned,
            )
        with closing(iterate_batches(loader)) as batches:
            for _ in range(self._settling):
                self._train(next(batches), step_ms, is_pinned=is_pinned)
            watch, moments_ns = Stopwatch(clock), [(0, 0, clock.now_ns())]
            for _ in range(self._batches):
                request_ns = clock.now_ns()
                batch = next(batches)
                arrival_ns = clock.now_ns()
                copies_ms += self._train(batch, step_ms, is_pinned=is_pinned)
                moments_ns.append((request_ns, arrival_ns, clock.now_ns()))
            times, memory = watch.stop(watch.seconds), memory_bytes()
        return PrefetchRepetition(
            **times.model_dump(),
            prefetch_factor=factor,
            is_pinned=is_pinned,
            frames=self._batches * config.batch_size * config.clip_len,
            intervals_ms=tuple((b[2] - a[2]) / 1e6 for a, b in pairwise(moments_ns)),
            waits_ms=tuple((arrival - request) / 1e6 for request, arrival, _ in moments_ns[1:]),
            copies_ms=tuple(copies_ms),
            memory_bytes=memory,
        )

    def _train(self, batch: Any, step_ms: float, *, is_pinned: bool) -> list[float]:
        """Transfer a batch to the GPU, if any, and wait for the rest of the step.

        Returns the milliseconds the transfer blocked the loop; empty without a GPU.
        """
        from torch import cuda

        if not cuda.is_available():
            self._waiter.pause(step_ms / 1e3)
            return []
        start_ns = self._clock.now_ns()
        frames = batch["frames"].to("cuda", non_blocking=is_pinned)
        blocked_ms = (self._clock.now_ns() - start_ns) / 1e6
        self._waiter.pause(step_ms / 1e3)
        cuda.current_stream(frames.device).synchronize()
        return [blocked_ms]


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
    jitter = f"{milliseconds(first.jitter_ms)} with {_label(first)}"
    wait = milliseconds(first.waits.mean)
    if other is not first:
        jitter += f" and {milliseconds(other.jitter_ms)} with {other.factor}"
        wait += f" and {milliseconds(other.waits.mean)}"
    return (
        f"Latency jitter (std of the intervals between batches) is {jitter}; the mean wait for a "
        f"batch is {wait}."
    )


def _charts(rows: tuple[PrefetchRow, ...]) -> tuple[Chart, ...]:
    plain, pinned = ([row for row in rows if row.is_pinned == kind] for kind in (False, True))
    jitter_and_wait = [
        Line(name + suffix, points, color=color, is_dotted=bool(suffix))
        for suffix, group in (("", plain), (", pinned", pinned))
        for name, color, points in (
            ("jitter", PLAIN, [(row.factor, row.jitter_ms) for row in group]),
            ("mean wait", MARK, [(row.factor, row.waits.mean) for row in group]),
        )
        if group
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


PREFETCH: Final[Benchmark[PrefetchConfig, PrefetchRecord, PrefetchRow]] = Benchmark(
    name="prefetch",
    summary="Time a training loop by prefetch_factor of a DataLoader; on a GPU, also pinned.",
    config=PrefetchConfig,
    record=PrefetchRecord,
    measure=_measure,
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
