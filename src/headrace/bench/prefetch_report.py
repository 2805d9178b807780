"""What `bench prefetch` shows: rows, answer and charts, from its record alone."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import plotly.graph_objects as go

from headrace.bench.benchmark import Experiment
from headrace.bench.charts import error_bars
from headrace.bench.prefetch import measure_prefetch
from headrace.bench.prefetch_pinning import pinning
from headrace.bench.prefetch_record import (
    DEFAULT_FACTOR,
    PrefetchConfig,
    PrefetchRecord,
    PrefetchRow,
    rows_of,
)
from headrace.bench.saturation import Saturation
from headrace.bench.suite.suite_spec import Terms
from headrace.measuring.interleaved import Trust
from headrace.profiling.findings.finding import Change, Finding
from headrace.report.drawing import MARK, PLAIN, Chart, draw
from headrace.report.experiment import Column
from headrace.report.numbers import (
    TOO_SMALL,
    counted,
    decimal,
    megabytes,
    milliseconds,
)

_PINNED: Final = "#5ea58c"


def _plain(rows: Sequence[PrefetchRow]) -> tuple[PrefetchRow, ...]:
    return tuple(row for row in rows if not row.is_pinned)


def _label(row: PrefetchRow) -> str:
    return f"prefetch_factor={row.prefetch_factor}"


def _saturation(rows: Sequence[PrefetchRow]) -> Saturation[PrefetchRow]:
    return Saturation(rows=_plain(rows), unit="frames/s", label=_label)


def _answer(record: PrefetchRecord, rows: tuple[PrefetchRow, ...]) -> tuple[Finding, ...]:
    trust = Trust.of(rows, record.provenance.machine.usable_cores)
    return _depth(record, rows, trust), pinning(rows, _saturation(rows).point, trust)


def _depth(record: PrefetchRecord, rows: tuple[PrefetchRow, ...], trust: Trust) -> Finding:
    found = _saturation(rows)
    evidence = [
        *found.rule("the smallest depth"),
        _most(record),
        _steadiness(found),
        _ahead(record, found.point),
        *trust.sentences("Turns of one setting"),
    ]
    finding = found.finding(
        trust,
        evidence,
        setting=_label(found.point),
        surplus="more only holds more batches in memory",
        further="--prefetch-factor with a larger number",
    )
    has_advice = len(found.rows) > 1 and not trust.doubt
    return replace(finding, advice=_advice(found) if has_advice else None)


def _advice(found: Saturation[PrefetchRow]) -> Change:
    """What the point gains on what a DataLoader does by itself, where that was measured."""
    base = next((row for row in found.rows if row.prefetch_factor == DEFAULT_FACTOR), None)
    words = f"{_label(found.point)} for the DataLoader"
    if base is None:
        return Change(words=words)
    return Change(
        words=words,
        gain=found.point.rate.median / base.rate.median,
        rests_on=f"{found.rate(found.point)}, {found.rate(base)} with {base.prefetch_factor}, "
        "which is its default",
    )


def _most(record: PrefetchRecord) -> str:
    slower_ms = max(record.load_ms, record.step_ms)
    workers = counted(record.workers, "worker")
    return (
        f"The loop is busy {milliseconds(record.step_ms)} with a batch, and {workers} alone "
        f"{'makes' if record.workers == 1 else 'make'} one every {milliseconds(record.load_ms)}: "
        f"about {decimal(record.batch_frames * 1e3 / slower_ms)} frames/s are possible at best. "
        "Depth evens out batches that take longer than others; it makes none faster."
    )


def _steadiness(found: Saturation[PrefetchRow]) -> str:
    first, last = found.rows[0], found.rows[-1]
    other = last if found.point is first else found.point
    said = (
        "Latency jitter (std of the intervals between batches) is "
        f"{milliseconds(first.jitter_ms)} with {_label(first)}"
    )
    if other is first:
        return f"{said}; a batch is waited for {milliseconds(first.wait_ms)} in the mean."
    return (
        f"{said} and {milliseconds(other.jitter_ms)} with {other.prefetch_factor}; a batch is "
        f"waited for {milliseconds(first.wait_ms)} and {milliseconds(other.wait_ms)} in the mean."
    )


def _ahead(record: PrefetchRecord, point: PrefetchRow) -> str:
    ahead = point.prefetch_factor * record.workers
    return (
        f"prefetch_factor × num_workers batches of {megabytes(record.batch_bytes)} are made ahead: "
        f"{megabytes(ahead * record.batch_bytes)} with {_label(point)}."
    )


def _rates(rows: tuple[PrefetchRow, ...]) -> Chart:
    chart = _saturation(rows).chart(
        lambda row: row.prefetch_factor,
        axis="prefetch_factor",
        name="prefetch",
        title="Frames per second by prefetch_factor",
        reading="The loop's frames ÷ its time; the bars reach from the slowest turn to the "
        "fastest. The ring is where it saturates: the smallest depth above the dashed line.",
    )
    pinned = [row for row in rows if row.is_pinned]
    if pinned:
        rates = [row.rate for row in pinned]
        chart.figure.add_scatter(
            name="pinned",
            x=[row.prefetch_factor for row in pinned],
            y=[rate.median for rate in rates],
            mode="lines+markers",
            line={"color": _PINNED, "width": 1.8, "dash": "dot"},
            error_y=error_bars(rates, _PINNED),
        )
    return chart


def _waits(rows: tuple[PrefetchRow, ...]) -> Chart:
    lines = []
    for is_pinned in dict.fromkeys(row.is_pinned for row in rows):
        some = [row for row in rows if row.is_pinned == is_pinned]
        end, dash = (", pinned", "dot") if is_pinned else ("", "solid")
        for name, color, values in (
            ("jitter", PLAIN, [row.jitter_ms for row in some]),
            ("mean wait", MARK, [row.wait_ms for row in some]),
        ):
            lines.append(
                go.Scatter(
                    name=name + end,
                    x=[row.prefetch_factor for row in some],
                    y=values,
                    mode="lines+markers",
                    line={"color": color, "width": 1.8, "dash": dash},
                    marker={"size": 8},
                    hovertemplate="%{y:.1f} ms",
                )
            )
    figure = draw(lines, height=320, hovermode="x unified")
    factors = sorted({row.prefetch_factor for row in rows})
    figure.update_xaxes(title_text="prefetch_factor", tickvals=factors)
    figure.update_yaxes(title_text="milliseconds", rangemode="tozero")
    return Chart(
        name="waits",
        title="How evenly batches come",
        reading="Jitter is the standard deviation of the intervals between batches, wait how long "
        "the loop stands still for one. Both fall as long as depth evens out what differs.",
        figure=figure,
    )


def _ms(value: float | None, missing: str) -> str:
    return missing if value is None else decimal(value)


PREFETCH: Final[Experiment[PrefetchConfig, PrefetchRecord, PrefetchRow]] = Experiment(
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
        Column("prefetch", lambda row: str(row.prefetch_factor)),
        Column("pinned", lambda row: "yes" if row.is_pinned else "no"),
        Column("frames/s", lambda row: decimal(row.rate.median)),
        Column("slowest", lambda row: decimal(row.rate.lowest)),
        Column("fastest", lambda row: decimal(row.rate.highest)),
        Column("jitter ms", lambda row: decimal(row.jitter_ms)),
        Column("wait ms", lambda row: decimal(row.wait_ms)),
        Column("p95 ms", lambda row: _ms(row.wait_p95_ms, TOO_SMALL)),
        Column("copy ms", lambda row: _ms(row.copy_ms, "-")),
        Column("MB", lambda row: megabytes(row.memory_bytes).removesuffix(" MB")),
    ),
    reading=lambda record, rows: (
        "Medians over the turns, of the same clips with every setting; the first "
        "batches of a turn, while workers begin, are left out. Jitter is the standard deviation of "
        "the intervals between batches; wait (mean, p95) how long the loop stood still for one; "
        "copy how long handing it to a GPU held the loop up. Memory is that of all processes at "
        "the end of a turn, what they share counted once."
    ),
    answer=_answer,
    charts=lambda rows: (_rates(rows), _waits(rows)),
    names_machine=True,
    terms=Terms(concerns="loading"),
)
