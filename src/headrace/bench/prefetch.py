"""Prefetch benchmark: prefetch_factor and pin_memory of a stock DataLoader."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import mean
from typing import Final

from headrace.bench.benchmark import Benchmark, Context
from headrace.bench.charts import Line, lines
from headrace.bench.ladder import Saturation
from headrace.bench.prefetch_record import (
    DEFAULT_FACTOR,
    PrefetchConfig,
    PrefetchRecord,
    PrefetchRow,
    PrefetchSetting,
    rows_of,
)
from headrace.bench.suite.suite_spec import SuiteSpec
from headrace.measuring.decode_counts import median_column, rate_columns
from headrace.measuring.interleaved import AGAIN, ALIKE, NoiseCheck, interleave
from headrace.profiling.findings.finding import Change, Finding
from headrace.profiling.number_format import (
    TOO_SMALL,
    counted,
    decimal,
    megabytes,
    milliseconds,
    times,
)
from headrace.report.benchmark_page import Column
from headrace.report.drawing import MARK, PLAIN, Chart

_REHEARSED: Final = 12
"""Batches of the calibration."""
_FEWEST, _MOST = 12, 300
"""Min and max counted batches of a repetition."""


def measure_prefetch(config: PrefetchConfig, context: Context) -> PrefetchRecord:
    """Time a loop over the same clips with every setting, interleaved, after a calibration.

    Raises:
        MediaError, StageError: a video cannot be read, or a worker fails.
        ConfigError: a video is too short for a clip.
    """
    from headrace.bench.prefetch_loop import PrefetchLoop, has_gpu

    provenance = context.provenance(config)
    context.on_progress("rehearsing", 0, 0)
    with PrefetchLoop(config, _REHEARSED, context) as rehearsal:
        plain = PrefetchSetting(prefetch_factor=DEFAULT_FACTOR, is_pinned=False)
        load_ms = mean(rehearsal.take(plain, step_ms=0.0).intervals_ms)
    step_ms = load_ms if config.step_ms is None else config.step_ms
    fitting = round(config.seconds * 1e3 / max(load_ms, step_ms))
    settings = [
        PrefetchSetting(prefetch_factor=factor, is_pinned=is_pinned)
        for is_pinned in ((False, True) if has_gpu() else (False,))
        for factor in sorted(config.prefetch_factor)
    ]
    with PrefetchLoop(config, min(_MOST, max(_FEWEST, fitting)), context) as training:
        repetitions = interleave(
            settings,
            lambda setting: training.take(setting, step_ms=step_ms),
            repeats=config.repeats,
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


_WHAT_PINNED_MEMORY_DOES: Final = (
    "Pinned memory is page-locked: a GPU copies from it by itself, so that "
    "batch.to('cuda', non_blocking=True) returns at once and the copy overlaps with what the GPU "
    "computes; from other memory the loop waits until the batch is copied.",
    "It costs one more copy in main memory, which a thread of the DataLoader makes, and memory "
    "that the system can neither move nor swap out.",
)


def pinning(rows: Sequence[PrefetchRow], point: PrefetchRow, noise: NoiseCheck) -> Finding:
    """Return the gain of pinned memory at the depth of `point`, or the reason it is unknown."""
    pinned = next((row for row in rows if row.is_pinned and row.factor == point.factor), None)
    if pinned is None or pinned.copy_ms is None or point.copy_ms is None:
        return Finding(
            headline="pin_memory was not measured: without a GPU it does nothing",
            evidence=("PyTorch warns and ignores it then.", *_WHAT_PINNED_MEMORY_DOES),
        )
    gain = pinned.rate.median / point.rate.median
    rates = f"{decimal(pinned.rate.median)} frames/s, {decimal(point.rate.median)} without it"
    headline = f"With pin_memory the loop is {times(gain)} as fast: {rates}"
    if noise.doubt:
        headline = f"{noise.doubt} what pin_memory brings; by the medians {rates}"
    elif ALIKE <= gain <= 1 / ALIKE:
        headline = f"pin_memory makes no difference to the rate: {rates}"
    holding = (
        f"Handing a batch to the GPU holds the loop up for {milliseconds(pinned.copy_ms)} from "
        f"pinned memory, with non_blocking=True; for {milliseconds(point.copy_ms)} from other."
    )
    change = Change(
        words="pin_memory=True, and batch.to('cuda', non_blocking=True)", gain=gain, evidence=rates
    )
    is_worth_it = gain > 1 / ALIKE and not noise.doubt
    return Finding(
        headline=headline,
        evidence=(holding, *_WHAT_PINNED_MEMORY_DOES),
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
        surplus="more only holds more batches in memory",
        further="--prefetch-factor with a larger number",
    )


def _answer(record: PrefetchRecord, rows: tuple[PrefetchRow, ...]) -> tuple[Finding, ...]:
    noise, saturation = record.noise(rows), _saturation(rows)
    point, batch_bytes = saturation.point, record.batch_bytes
    slower_ms, workers = max(record.load_ms, record.step_ms), counted(record.workers, "worker")
    evidence = [
        *saturation.rule("the smallest depth"),
        f"The loop is busy {milliseconds(record.step_ms)} with a batch, and {workers} alone "
        f"{'makes' if record.workers == 1 else 'make'} one every {milliseconds(record.load_ms)}: "
        f"about {decimal(record.batch_frames * 1e3 / slower_ms)} frames/s are possible at best. "
        "Depth evens out batches that take longer than others; it makes none faster.",
        _steadiness(saturation),
        f"prefetch_factor × num_workers batches of {megabytes(batch_bytes)} are made ahead: "
        f"{megabytes(point.factor * record.workers * batch_bytes)} with {_label(point)}.",
        *noise.sentences("Repetitions of one setting"),
    ]
    depth, advice = saturation.finding(noise, evidence), None
    if len(saturation.rows) > 1 and not noise.doubt:
        advice = Change(words=f"{_label(point)} for the DataLoader")
        for base in (row for row in saturation.rows if row.factor == DEFAULT_FACTOR):
            rates = f"{saturation.rate(point)}, {saturation.rate(base)} with {base.factor}"
            gain, reason = point.rate.median / base.rate.median, f"{rates}, which is its default"
            advice = replace(advice, gain=gain, evidence=reason)
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
        f"{_label(first) if other is first else other.factor}; a batch is waited for "
        f"{wait} in the mean."
    )


def _charts(rows: tuple[PrefetchRow, ...]) -> tuple[Chart, ...]:
    plain, pinned = ([row for row in rows if row.is_pinned is is_it] for is_it in (False, True))
    even = [
        Line(
            name=name + end,
            x=[row.factor for row in some],
            y=[figure(row) for row in some],
            color=color,
            is_dotted=bool(end),
        )
        for end, some in (("", plain), (", pinned", pinned))
        if some
        for name, color, figure in _EVENNESS
    ]
    rates = Line(
        name="pinned",
        x=[row.factor for row in pinned],
        y=[row.rate for row in pinned],
        color="#5ea58c",
        is_dotted=True,
    )
    return (
        _saturation(rows).chart(
            lambda row: row.factor,
            *([rates] if pinned else []),
            axis="prefetch_factor",
            name="prefetch",
            title="Frames per second by prefetch_factor",
            reading="The loop's frames ÷ its time; the bars reach from the slowest to the fastest "
            "repetition. The ring is where it saturates: the smallest depth above the dashed line.",
        ),
        lines(
            even,
            name="waits",
            title="How evenly batches come",
            reading="Jitter is the standard deviation of the intervals between batches, wait how "
            "long the loop stands still for one. Both fall as long as depth evens out what "
            "differs.",
            x={"title_text": "prefetch_factor", "tickvals": [row.factor for row in plain]},
            y="ms",
        ),
    )


_EVENNESS: Final[tuple[tuple[str, str, Callable[[PrefetchRow], float]], ...]] = (
    ("jitter", PLAIN, lambda row: row.jitter_ms),
    ("mean wait", MARK, lambda row: row.waits.mean),
)


PREFETCH: Final[Benchmark[PrefetchConfig, PrefetchRecord, PrefetchRow]] = Benchmark(
    name="prefetch",
    summary="Time a training loop for each prefetch_factor of a DataLoader, on a GPU also pinned.",
    config=PrefetchConfig,
    record=PrefetchRecord,
    measure=measure_prefetch,
    title=lambda record: (
        "Frames per second by prefetch_factor: batches of "
        f"{counted(record.batch_frames, 'frame')}, {counted(record.workers, 'worker')}"
    ),
    rows=rows_of,
    columns=(
        Column("prefetch", lambda row: str(row.factor)),
        Column("pinned", lambda row: "yes" if row.is_pinned else "no"),
        *rate_columns("frames/s"),
        Column("jitter ms", lambda row: decimal(row.jitter_ms)),
        Column("wait ms", lambda row: decimal(row.waits.mean)),
        Column("p95 ms", lambda row: decimal(row.waits.p95, TOO_SMALL)),
        Column("copy ms", lambda row: decimal(row.copy_ms)),
        median_column("MB", lambda repetition: repetition.memory_bytes / 1e6),
    ),
    reading=lambda record, rows: (
        "Medians over the repetitions, of the same clips with every setting; the first "
        "batches of a repetition, while workers begin, are left out. Jitter is the standard "
        "deviation of the intervals between batches; wait (mean, p95) how long the loop stood "
        "still for one; copy how long handing it to a GPU held the loop up. Memory is that of all "
        "processes at the end of a repetition, what they share counted once."
    ),
    answer=_answer,
    charts=lambda record, rows: _charts(rows),
    names_machine=True,
    terms=SuiteSpec(concerns="loading"),
)
