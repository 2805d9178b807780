"""What the timed epochs come to: a row for each number of workers, where it saturates, a chart."""

from dataclasses import dataclass
from statistics import median
from typing import Final

import plotly.graph_objects as go

from headrace.experiments.workers import Epoch, WorkersRecord
from headrace.profiling.findings.finding import Finding
from headrace.report.drawing import MARK, PLAIN, Chart, draw
from headrace.report.experiment import Experiment, Table
from headrace.report.numbers import counted, decimal, megabytes, percent, seconds

ALIKE: Final = 0.95
"""From this share of the best throughput on, more workers are not worth having."""
UNSTEADY: Final = 0.25
"""From this spread between epochs of one kind on, the machine was busy with something else."""


@dataclass(frozen=True, kw_only=True)
class WorkersRow:
    """The epochs with one number of workers; medians."""

    workers: int
    frames_per_second: float
    slowest: float
    """Frames per second of the slowest epoch."""
    fastest: float
    clips_per_second: float
    first_batch_seconds: float
    cpu_share: float
    """Processor time ÷ wall time: 1 is one core busy throughout."""
    memory_bytes: int
    decoded: float
    """Frames decoded for each one delivered; near 1 is as cheap as reading in order."""
    seeks: float
    """For each frame delivered; so are the rest."""
    opens: float
    bytes_read: float


def rows_of(record: WorkersRecord) -> tuple[WorkersRow, ...]:
    """Return a row for each number of workers, ascending."""
    numbers = sorted({epoch.workers for epoch in record.epochs})
    return tuple(
        _row(record, [epoch for epoch in record.epochs if epoch.workers == workers])
        for workers in numbers
    )


def saturation(rows: tuple[WorkersRow, ...]) -> WorkersRow:
    """Return where throughput saturates: the fewest workers within 5 % of the best row."""
    best = max(row.frames_per_second for row in rows)
    return next(row for row in rows if row.frames_per_second >= ALIKE * best)


def workers_experiment(record: WorkersRecord) -> Experiment:
    """Return what the record shows, ready to be rendered."""
    rows = rows_of(record)
    return Experiment(
        name="bench workers",
        title=f"Frames per second by num_workers: {counted(record.clips, 'clip')} "
        f"of {counted(record.videos, 'video')}",
        created=record.provenance.created,
        command=record.provenance.command,
        findings=(_finding(record, rows),),
        charts=(_chart(rows),),
        table=_table(rows),
        configuration=record.provenance.configuration,
        machine=record.provenance.machine,
        versions=record.provenance.versions,
    )


def _row(record: WorkersRecord, epochs: list[Epoch]) -> WorkersRow:
    rates = [record.frames / epoch.seconds for epoch in epochs]
    return WorkersRow(
        workers=epochs[0].workers,
        frames_per_second=median(rates),
        slowest=min(rates),
        fastest=max(rates),
        clips_per_second=median(record.clips / epoch.seconds for epoch in epochs),
        first_batch_seconds=median(epoch.first_batch_seconds for epoch in epochs),
        cpu_share=median(epoch.cpu_seconds / epoch.seconds for epoch in epochs),
        memory_bytes=int(median(epoch.memory_bytes for epoch in epochs)),
        decoded=median(epoch.decoded / record.frames for epoch in epochs),
        seeks=median(epoch.seeks / record.frames for epoch in epochs),
        opens=median(epoch.opens / record.frames for epoch in epochs),
        bytes_read=median(epoch.bytes_read / record.frames for epoch in epochs),
    )


def _finding(record: WorkersRecord, rows: tuple[WorkersRow, ...]) -> Finding:
    point, best = saturation(rows), max(rows, key=lambda row: row.frames_per_second)
    cores = record.provenance.machine.usable_cores
    spread = max((row.fastest - row.slowest) / row.frames_per_second for row in rows)
    headline, change = _verdict(rows, point, is_steady=spread <= UNSTEADY)
    evidence = [
        f"Saturation is the fewest workers within 5 % of the best, which is "
        f"{_rate(best)} with {_workers(best)}.",
        *_gain(rows[0], point),
        f"{_workers(point)}: processors busy {percent(point.cpu_share)} of one core, "
        f"{counted(cores, 'core')} usable.",
    ]
    if spread > 1 - ALIKE:
        evidence.append(
            f"Epochs with the same number of workers differ by up to {percent(spread)}: "
            "rows closer than that cannot be told apart."
        )
    return Finding(headline=headline, evidence=tuple(evidence), change=change)


def _verdict(
    rows: tuple[WorkersRow, ...], point: WorkersRow, *, is_steady: bool
) -> tuple[str, str | None]:
    """Return the answer in one sentence, and what to do about it."""
    if len(rows) == 1:
        return f"{_rate(point)} with {_workers(point)}", None
    if not is_steady:
        return (
            f"Too unsteady to say where it saturates; by the rule at {_workers(point)}",
            "The same again with nothing else running, or with more --repeats.",
        )
    if point is rows[-1]:
        return (
            f"No saturation up to {_workers(point)}: {_rate(point)}",
            "More workers still: --workers with a larger number.",
        )
    return (
        f"Saturates at {_workers(point)}: {_rate(point)}",
        f"num_workers={point.workers}; more only take memory and time to start.",
    )


def _gain(first: WorkersRow, point: WorkersRow) -> list[str]:
    if point is first:
        return []
    times = point.frames_per_second / first.frames_per_second
    return [f"That is {decimal(times)} times the {_rate(first)} with {_workers(first)}."]


def _rate(row: WorkersRow) -> str:
    return f"{decimal(row.frames_per_second)} frames/s"


def _workers(row: WorkersRow) -> str:
    return counted(row.workers, "worker")


def _table(rows: tuple[WorkersRow, ...]) -> Table:
    return Table(
        reading="Medians over the epochs; 0 workers is the training process itself. CPU is "
        "processor time ÷ wall time, 100 % being one core. Memory is that of all processes when "
        "the last batch was there, what they share counted once. Decoded, seeks, opens and kB read "
        "are for each frame delivered, by all processes.",
        heads=(
            *("workers", "frames/s", "slowest", "fastest", "clips/s", "first batch", "CPU", "MB"),
            *("decoded", "seeks", "opens", "kB read"),
        ),
        rows=tuple(
            (
                str(row.workers),
                decimal(row.frames_per_second),
                decimal(row.slowest),
                decimal(row.fastest),
                decimal(row.clips_per_second),
                seconds(row.first_batch_seconds),
                percent(row.cpu_share),
                megabytes(row.memory_bytes).removesuffix(" MB"),
                *(decimal(row.decoded), decimal(row.seeks), decimal(row.opens)),
                decimal(row.bytes_read / 1e3),
            )
            for row in rows
        ),
    )


def _chart(rows: tuple[WorkersRow, ...]) -> Chart:
    point = saturation(rows)
    rates = [row.frames_per_second for row in rows]
    line = go.Scatter(
        name="median of the epochs",
        x=[row.workers for row in rows],
        y=rates,
        mode="lines+markers",
        line={"color": PLAIN, "width": 1.8},
        marker={"size": 8},
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [row.fastest - row.frames_per_second for row in rows],
            "arrayminus": [row.frames_per_second - row.slowest for row in rows],
            "color": PLAIN,
            "thickness": 1.2,
        },
        hovertemplate="%{y:.0f} frames/s<extra>%{x} workers</extra>",
    )
    mark = go.Scatter(
        name=f"saturation: {_workers(point)}",
        x=[point.workers],
        y=[point.frames_per_second],
        mode="markers",
        marker={"size": 15, "symbol": "circle-open", "color": MARK, "line": {"width": 2.5}},
        hoverinfo="skip",
    )
    enough = go.Scatter(
        name="95 % of the best",
        x=[rows[0].workers, rows[-1].workers],
        y=[ALIKE * max(rates)] * 2,
        mode="lines",
        line={"color": MARK, "width": 1.2, "dash": "dash"},
        hoverinfo="skip",
    )
    figure = draw([line, enough, mark], height=360)
    figure.update_xaxes(title_text="num_workers", tickvals=[row.workers for row in rows])
    figure.update_yaxes(title_text="frames/s", rangemode="tozero")
    return Chart(
        name="workers",
        title="Frames per second by number of workers",
        reading="An epoch's frames ÷ its time, starting the workers included; the bars reach from "
        "the slowest epoch to the fastest. The ring is where it saturates: the fewest workers "
        "above the dashed line.",
        figure=figure,
    )
