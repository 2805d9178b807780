"""What bench compile shows: rows, answer and charts, from its record alone."""

from dataclasses import dataclass
from typing import Final

import plotly.graph_objects as go

from headrace.bench.benchmark import Experiment
from headrace.bench.charts import rate_bars
from headrace.bench.compile_model import (
    COMPILED,
    PLAIN,
    CompileConfig,
    CompileRecord,
    measure_compile,
)
from headrace.bench.contest import ContestRow, Ranking, contest_columns, contest_rows
from headrace.bench.suite.suite_spec import Terms
from headrace.profiling.findings.finding import Change, Finding
from headrace.report.drawing import MARK, Chart, draw
from headrace.report.drawing import PLAIN as GREY
from headrace.report.experiment import Column
from headrace.report.numbers import count, counted, decimal, seconds

_CHANGES: Final = {
    COMPILED: Change(words="--enable-compile of headrace run", options={"compile": True})
}


@dataclass(frozen=True, kw_only=True)
class CompileRow(ContestRow):
    """The model as it is, or compiled."""

    ready_seconds: float
    """What compiling takes before the first frame."""


def rows_of(record: CompileRecord) -> tuple[CompileRow, ...]:
    """Return the plain model, then the compiled one."""
    ready = {PLAIN: 0.0, COMPILED: record.compile_seconds}
    return tuple(
        CompileRow(**vars(row), ready_seconds=ready[row.way]) for row in contest_rows(record)
    )


def pays_after(rows: tuple[CompileRow, ...]) -> float | None:
    """Return the frames after which what compiling took is made up for; None: never."""
    plain, compiled = rows
    saved = 1 / plain.rate.median - 1 / compiled.rate.median
    return compiled.ready_seconds / saved if saved > 0 else None


def _answer(record: CompileRecord, rows: tuple[CompileRow, ...]) -> tuple[Finding, ...]:
    ranking = Ranking.of(record, rows, "frames")
    plain, compiled = rows
    rates = f"{ranking.rate(compiled)} against {ranking.rate(plain)}"
    times = decimal(ranking.times(compiled))
    if ranking.trust.doubt:
        headline = f"{ranking.trust.doubt} what compiling gains; by the medians {rates}"
    elif ranking.is_won:
        headline = f"Compiled, {record.model} is {times} times as fast: {rates}"
    else:
        headline = f"Compiling {record.model} gains nothing here: {rates}"
    evidence = (
        _cost(record, ranking, rows),
        f"Scores of {counted(record.compared, 'frame')} were the same before anything was timed: "
        f"apart by {record.difference:.1g} of the largest score at most ({record.allowed:g} is "
        "allowed).",
        "These are figures of the model alone: a run gains as much only where its model sets the "
        "pace.",
        *ranking.trust.sentences("Turns of one way"),
    )
    return (
        Finding(
            headline=headline,
            evidence=evidence,
            change=_change(ranking, rows),
            advice=ranking.advice(_CHANGES),
        ),
    )


def _cost(record: CompileRecord, ranking: Ranking, rows: tuple[CompileRow, ...]) -> str:
    cost = f"Compiling took {seconds(record.compile_seconds)} before the first frame"
    if record.is_cached:
        cost += " (from what PyTorch kept of an earlier time; the first time takes longer)"
    frames = pays_after(rows)
    if ranking.trust.doubt:
        return f"{cost}."
    if frames is None or not ranking.is_won:
        return f"{cost}: nothing makes up for that."
    played = seconds(frames / record.frame_rate)
    return (
        f"{cost}: made up for after {count(round(frames))} frames, {played} of such a video "
        f"({decimal(record.frame_rate)} frames/s)."
    )


def _change(ranking: Ranking, rows: tuple[CompileRow, ...]) -> str:
    frames = pays_after(rows)
    if not ranking.is_won or frames is None:
        return ranking.change()
    return (
        f"--enable-compile of headrace run where it has more than {count(round(frames))} frames "
        f"to go through: {decimal(ranking.times(ranking.best))} times the "
        f"{ranking.rate(ranking.first)} of {PLAIN}."
    )


def _elapsed(rows: tuple[CompileRow, ...]) -> Chart:
    frames = pays_after(rows) or 60 * rows[0].rate.median
    lines = [
        go.Scatter(
            name=row.way,
            x=[0, 2 * frames],
            y=[row.ready_seconds, row.ready_seconds + 2 * frames / row.rate.median],
            mode="lines",
            line={"color": color, "width": 1.8},
            hovertemplate=f"{row.way}: %{{x:,.0f}} frames after %{{y:.1f}} s<extra></extra>",
        )
        for row, color in zip(rows, (GREY, MARK), strict=True)
    ]
    figure = draw(lines, height=300)
    figure.update_xaxes(title_text="frames", rangemode="tozero")
    figure.update_yaxes(title_text="s", rangemode="tozero")
    return Chart(
        name="elapsed",
        title="Time until so many frames are done",
        reading="Compiling first, then the median rate of each. Where the lines cross, compiling "
        "has paid for itself.",
        figure=figure,
        is_wide=False,
    )


COMPILE: Final[Experiment[CompileConfig, CompileRecord, CompileRow]] = Experiment(
    name="compile",
    summary="Time a model plain and by torch.compile; tell after how many frames that pays.",
    config=CompileConfig,
    record=CompileRecord,
    measure=measure_compile,
    title=lambda record: (
        f"Frames per second, plain and compiled: {record.model} on {record.device}"
    ),
    rows=rows_of,
    columns=(
        *contest_columns("model", "frames"),
        Column("compile s", lambda row: decimal(row.ready_seconds)),
    ),
    reading=lambda record, rows: (
        "Of the model alone, on batches that lie in memory; medians over the turns. Compiling is "
        "done before all turns, for one shape of batches, and timed apart."
    ),
    answer=_answer,
    charts=lambda rows: (
        rate_bars(
            rows,
            "frames",
            name="rates",
            title="Frames per second of the model",
            axis="model",
            reading="The same batches, plain and compiled.",
        ),
        _elapsed(rows),
    ),
    names_machine=True,
    terms=Terms(concerns="model"),
)
