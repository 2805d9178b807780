"""`bench sampling` as an experiment: its columns and its chart."""

from typing import Final

import plotly.graph_objects as go

from headrace.bench.benchmark import Experiment
from headrace.bench.charts import dashed, error_bars
from headrace.bench.sampling import SamplingConfig, among_all, measure_sampling
from headrace.bench.sampling_conclusion import answer
from headrace.bench.sampling_record import SamplingRecord
from headrace.bench.sampling_rows import SamplingRow, ladder_of, rows_of
from headrace.bench.suite.suite_spec import Terms
from headrace.measuring import decode_counts
from headrace.measuring.steady_state import FILLING
from headrace.report.drawing import MARK, PLAIN, Chart, bar, draw
from headrace.report.experiment import Column
from headrace.report.numbers import count, counted, decimal, megabytes

_MARGIN: Final = 1.2
"""The axis of the chart goes so much further than the fastest turn, for the words beside it."""


def _reading(record: SamplingRecord, rows: tuple[SamplingRow, ...]) -> str:
    turns = len([turn for turn in record.turns if turn.strategy == "baseline"])
    filling = any(not row.is_filled for row in rows)
    return (
        f"Medians over {counted(turns, 'turn')} of each strategy. Not counted is the "
        "warm-up of a turn: its first batch, and as many frames as a FrameLoader looks ahead"
        + (f", but at most {FILLING} times the measured time (* is still warming up)" * filling)
        + ". Times is by how much the baseline is outdone. Decoded, CPU, seeks, opens and kB read "
        "are for each frame delivered; the baseline does not count what it reads (-). "
        "Held are the frames that wait, at most; of a DataLoader, what its workers make ahead. "
        "Bias is that of the expected gradient, in σ; deff is the variance of a batch ÷ "
        "that of independent frames, and D the same for many batches together: "
        "near 1 is as good as random."
    )


def _chart(rows: tuple[SamplingRow, ...]) -> Chart:
    upwards = rows[::-1]  # plotly draws the first category at the bottom
    labels = [row.label for row in upwards]
    bars = bar(
        y=labels,
        x=[row.rate.median for row in upwards],
        orientation="h",
        color=[MARK if row is rows[0] else PLAIN for row in upwards],
        error_x=error_bars([row.rate for row in upwards], PLAIN),
        hovertemplate="%{x:.0f} images/s<extra>%{y}</extra>",
        showlegend=False,
    )
    # Behind the error bars: a text of the bars themselves would lie under them.
    times = go.Scatter(
        y=labels,
        x=[row.rate.highest for row in upwards],
        text=[f"  {decimal(row.times)}x" for row in upwards],
        mode="text",
        cliponaxis=False,
        textposition="middle right",
        hoverinfo="skip",
        showlegend=False,
    )
    most = max(row.rate.highest for row in rows)
    figure = draw([bars, times, *_enough(rows, labels)], height=80 + 40 * len(rows), bargap=0.35)
    figure.update_xaxes(title_text="images/s", range=[0, _MARGIN * most])
    figure.update_yaxes(showgrid=False)
    return Chart(
        name="sampling",
        title="Images per second by strategy",
        reading="Frames delivered per second, in batches, when the loop does nothing else; beside "
        "each bar how many times the baseline that is. The lines reach from the slowest turn to "
        "the fastest. Memory saturates with the least of it that reaches the dashed line: 95 % of "
        "the best that draws the very same frames.",
        figure=figure,
    )


def _enough(rows: tuple[SamplingRow, ...], labels: list[str]) -> list[go.Scatter]:
    """Return the line from which memory is enough, if that was measured."""
    ladder = ladder_of(rows)
    if ladder is None:
        return []
    ends = {"x": [ladder.enough] * 2, "y": [labels[0], labels[-1]]}
    return [dashed(PLAIN, **ends, showlegend=False)]


SAMPLING: Final[Experiment[SamplingConfig, SamplingRecord, SamplingRow]] = Experiment(
    name="sampling",
    summary="Time random frames in several ways beside a plain baseline; name what limits them.",
    config=SamplingConfig,
    record=SamplingRecord,
    measure=measure_sampling,
    title=lambda record: (
        "Images per second by strategy: random frames of "
        f"{counted(record.videos, 'video')}, batches of {record.batch_size}"
    ),
    rows=rows_of,
    columns=(
        Column("strategy", lambda row: row.label),
        Column("images/s", lambda row: decimal(row.rate.median) + "*" * (not row.is_filled)),
        Column(
            "from - to", lambda row: f"{decimal(row.rate.lowest)} - {decimal(row.rate.highest)}"
        ),
        Column("times", lambda row: decimal(row.times)),
        decode_counts.DECODED,
        Column("CPU ms", lambda row: decimal(row.cpu_ms)),
        *decode_counts.READ,
        Column("held MB", lambda row: megabytes(row.held_bytes).removesuffix(" MB")),
        Column("frames", lambda row: count(row.frames)),
        Column("bias", lambda row: decimal(row.strategy.bias)),
        Column("deff", lambda row: decimal(row.strategy.design_effect)),
        Column("D", lambda row: decimal(row.strategy.inflation)),
    ),
    reading=_reading,
    answer=answer,
    charts=lambda rows: (_chart(rows),),
    names_machine=True,
    terms=Terms(config=among_all, seconds=60, concerns="loading"),
)
