"""What the turns come to: a row for each strategy, what limits the fastest, where memory saturates,
a chart."""

from typing import Final

import plotly.graph_objects as go

from headrace.experiments.delivery import FILLING
from headrace.experiments.sampling import SamplingRecord
from headrace.experiments.sampling_rows import (
    ALIKE,
    LADDER,
    SamplingRow,
    ladder_of,
    rows_of,
    saturation,
)
from headrace.profiling.findings import Finding
from headrace.profiling.provenance import Machine
from headrace.report.drawing import MARK, PLAIN, Chart, bar, draw
from headrace.report.experiment import Experiment, Table
from headrace.report.numbers import count, counted, decimal, gibibytes, megabytes, percent

BUSY: Final = 0.9
"""From this share of the cores it can use on, a strategy is bound by decoding."""
UNSTEADY: Final = 0.25
"""From this spread on, of the fastest row or the baseline, nothing is said of what limits it."""
DISTURBED: Final = 0.1
"""From this share of the cores on that other programs take, rows cannot be compared by time."""
_AGAIN: Final = "The same again with nothing else running."
_MARGIN: Final = 1.2
"""The axis of the chart goes so much further than the fastest turn, for the words beside it."""
_WASTEFUL: Final = 1.5
"""Frames decoded per frame delivered from which more memory is the first thing to try."""


def machine_line(machine: Machine) -> str:
    """Return what was measured on: processor, cores, memory, GPU."""
    gpus = ", ".join(f"{gpu.name} ({gibibytes(gpu.memory_bytes)})" for gpu in machine.gpus)
    return (
        f"Machine: CPU {machine.cpu}, {machine.usable_cores} of "
        f"{counted(machine.logical_cores or machine.usable_cores, 'core')} usable; "
        f"RAM {gibibytes(machine.memory_bytes)}; GPU {gpus or 'none'}"
    )


def sampling_experiment(record: SamplingRecord) -> Experiment:
    """Return what the record shows, ready to be rendered."""
    rows = rows_of(record)
    return Experiment(
        name="bench sampling",
        title=f"Images per second by strategy: random frames of {counted(record.videos, 'video')}, "
        f"batches of {record.batch_size}",
        created=record.provenance.created,
        command=record.provenance.command,
        findings=(
            _verdict(record, rows),
            _memory(record, rows),
            _price(record),
            _strategies(record),
        ),
        charts=(_chart(rows),),
        table=_table(record, rows),
        configuration=record.provenance.configuration,
        machine=record.provenance.machine,
        versions=record.provenance.versions,
    )


def _verdict(record: SamplingRecord, rows: tuple[SamplingRow, ...]) -> Finding:
    """Name the fastest row, and what limits it."""
    baseline, best = rows[0], max(rows, key=lambda row: row.images_per_second)
    usable, spread = record.provenance.machine.usable_cores, max(row.spread for row in rows)
    bound, change = _bound(record, best, baseline)
    evidence = [
        f"{best.strategy.label} decodes {decimal(best.decoded)} frames for each image, the "
        f"baseline {decimal(baseline.decoded)}; that takes {decimal(best.cpu_ms)} ms of processor "
        f"time against {decimal(baseline.cpu_ms)} ms.",
        f"{best.strategy.label} keeps {decimal(best.cores)} of {counted(usable, 'usable core')} "
        f"busy with {counted(record.workers, 'worker')}, the baseline {decimal(baseline.cores)}; "
        f"other programs meanwhile {decimal(best.others)} and {decimal(baseline.others)}.",
        f"It counts as bound by decoding from {percent(BUSY)} of the cores that its workers can "
        "use.",
        f"Before it was timed, {counted(record.compared, 'frame')} came out equal, bit for bit, "
        "from the baseline, a FrameDataset and a FrameLoader.",
    ]
    if spread > 1 - ALIKE:
        evidence.append(
            f"Turns of one strategy differ by up to {percent(spread)}: rows closer than that "
            "cannot be told apart."
        )
    return Finding(
        headline=f"{_names(best, rows)}: {decimal(best.images_per_second)} images/s, "
        f"{decimal(best.times)} times the baseline; {bound}",
        evidence=tuple(evidence),
        change=change,
    )


def _bound(record: SamplingRecord, row: SamplingRow, baseline: SamplingRow) -> tuple[str, str]:
    """Return what limits a row, by the rule, and the one change to try."""
    usable, workers = record.provenance.machine.usable_cores, record.workers
    if max(row.others, baseline.others) > DISTURBED * usable:
        saved = decimal(baseline.cpu_ms / row.cpu_ms)
        return f"other programs ran meanwhile, but processor time is {saved} times less", _AGAIN
    if max(row.spread, baseline.spread) > UNSTEADY:
        return "too unsteady to say what limits it", _AGAIN
    if row.cores < BUSY * min(workers, usable):
        return (
            "not bound by processors, which had time to spare",
            "Faster storage, or more --workers than cores, so that some decode while others wait.",
        )
    if workers < usable:
        return (
            f"bound by decoding, with {counted(workers, 'worker')}",
            f"--workers {usable}, one for each core.",
        )
    if row.decoded > _WASTEFUL:
        change = "More --memory: most frames are decoded only to get to others."
    else:
        change = (
            "More cores, or copies of the videos at the size of the model (see headrace plan): "
            "hardly anything is decoded in vain any more."
        )
    return "bound by decoding, on all cores", change


def _memory(record: SamplingRecord, rows: tuple[SamplingRow, ...]) -> Finding:
    """Name where more memory gives no more images."""
    ladder, point = ladder_of(rows), saturation(rows)
    if point is None:
        return Finding(
            headline="Where memory saturates was not measured",
            evidence=(
                f"It takes two of {', '.join(LADDER)}: the same frames in ever more memory.",
            ),
            change=f"--strategies {','.join(LADDER)}, or more --memory where one is not possible.",
        )
    headline, change = _saturates(record, ladder, point)
    evidence = [
        "Saturation is the least memory within 5 % of the best, of what draws the very same "
        f"frames: {', '.join(f'{row.strategy.label} {_rate_of(row)}' for row in ladder)}.",
        f"{point.strategy.label} decodes {decimal(point.decoded)} frames for each image; from "
        "about 1 on, more memory saves nothing that reading in order would cost.",
    ]
    filling = [row.strategy.label for row in ladder if not row.is_filled]
    if filling:
        evidence.append(
            f"Still filling while measured, so faster in the long run: {', '.join(filling)}."
        )
    return Finding(headline=headline, evidence=tuple(evidence), change=change)


def _saturates(
    record: SamplingRecord, ladder: list[SamplingRow], point: SamplingRow
) -> tuple[str, str]:
    """Return the answer in one sentence, and what to do about it."""
    label, usable = point.strategy.label, record.provenance.machine.usable_cores
    if any(row.spread > UNSTEADY or row.others > DISTURBED * usable for row in ladder):
        return f"Too unsteady to say where memory saturates; by the rule at {label}", _AGAIN
    if point is not ladder[-1]:
        return (
            f"Memory saturates at {label}: {_rate_of(point)}",
            "No more memory than that: the rest is of more use to the model.",
        )
    below = ladder[-2]
    share = percent(below.images_per_second / point.images_per_second)
    return (
        f"No saturation of memory up to {label}: {_rate_of(point)}, {share} of it with "
        f"{below.strategy.label}",
        "Twice the --memory, if the machine has it.",
    )


def _rate_of(row: SamplingRow) -> str:
    return f"{decimal(row.images_per_second)} images/s"


def _names(best: SamplingRow, rows: tuple[SamplingRow, ...]) -> str:
    """Name the fastest, and those that are as fast within 5 %."""
    as_fast = [
        row.strategy.label
        for row in rows
        if row is not best and row.images_per_second >= ALIKE * best.images_per_second
    ]
    return "Fastest is " + " and ".join([best.strategy.label, *as_fast])


def _price(record: SamplingRecord) -> Finding:
    """Say what each strategy's frames are worth to training, those with the same ones together."""
    labels: dict[str, list[str]] = {}
    for each in record.strategies:
        labels.setdefault(each.draws, []).append(each.label)
    return Finding(
        headline="What it costs in statistics: "
        + ("nothing" if len(labels) == 1 else "nothing, but for what draws other frames"),
        evidence=tuple(f"{', '.join(names)}: {draws}." for draws, names in labels.items()),
    )


def _strategies(record: SamplingRecord) -> Finding:
    return Finding(
        headline="The strategies",
        evidence=tuple(
            f"{each.label}: {each.how}."
            + (f" Not possible here: {each.why_not}." if each.why_not else "")
            for each in record.strategies
        ),
    )


def _table(record: SamplingRecord, rows: tuple[SamplingRow, ...]) -> Table:
    turns = len([turn for turn in record.turns if turn.strategy == "baseline"])
    filling = any(not row.is_filled for row in rows)
    return Table(
        reading=f"Medians over {counted(turns, 'turn')} of each strategy. Not counted is the "
        "warm-up of a turn: its first batch, and as many frames as a FrameLoader looks ahead"
        + (f", but at most {FILLING} times the measured time (* is still warming up)" * filling)
        + ". Times is by how much the baseline is outdone. Decoded, CPU, seeks, opens and kB read "
        "are for each frame delivered; the baseline does not count what it reads (-). "
        "Held are the frames that wait, at most; of a DataLoader, what its workers make ahead. "
        "Bias is that of the expected gradient, in σ; deff is the variance of a batch ÷ "
        "that of independent frames, and D the same for many batches together: "
        "near 1 is as good as random.",
        heads=(
            *("strategy", "images/s", "from - to", "times", "decoded", "CPU ms", "seeks"),
            *("opens", "kB read", "held MB", "frames", "bias", "deff", "D"),
        ),
        rows=tuple(map(_cells, rows)),
    )


def _cells(row: SamplingRow) -> tuple[str, ...]:
    strategy = row.strategy
    return (
        strategy.label,
        decimal(row.images_per_second) + ("" if row.is_filled else "*"),
        f"{decimal(row.slowest)} - {decimal(row.fastest)}",
        decimal(row.times),
        *(decimal(row.decoded), decimal(row.cpu_ms), decimal(row.seeks), decimal(row.opens)),
        decimal(row.bytes_read / 1e3) if row.bytes_read else "-",
        megabytes(row.held_bytes).removesuffix(" MB"),
        count(row.frames),
        *(decimal(strategy.bias), decimal(strategy.design_effect), decimal(strategy.inflation)),
    )


def _chart(rows: tuple[SamplingRow, ...]) -> Chart:
    upwards = rows[::-1]  # plotly draws the first category at the bottom
    labels = [row.strategy.label for row in upwards]
    bars = bar(
        y=labels,
        x=[row.images_per_second for row in upwards],
        orientation="h",
        color=[MARK if row is rows[0] else PLAIN for row in upwards],
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [row.fastest - row.images_per_second for row in upwards],
            "arrayminus": [row.images_per_second - row.slowest for row in upwards],
            "color": PLAIN,
            "thickness": 1.2,
        },
        hovertemplate="%{x:.0f} images/s<extra>%{y}</extra>",
        showlegend=False,
    )
    # Behind the error bars: a text of the bars themselves would lie under them.
    times = go.Scatter(
        y=labels,
        x=[row.fastest for row in upwards],
        text=[f"  {decimal(row.times)}x" for row in upwards],
        mode="text",
        cliponaxis=False,
        textposition="middle right",
        hoverinfo="skip",
        showlegend=False,
    )
    most = max(row.fastest for row in rows)
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
    if saturation(rows) is None:
        return []
    enough = ALIKE * max(row.images_per_second for row in ladder_of(rows))
    return [
        go.Scatter(
            x=[enough, enough],
            y=[labels[0], labels[-1]],
            mode="lines",
            line={"color": PLAIN, "width": 1.2, "dash": "dash"},
            hoverinfo="skip",
            showlegend=False,
        )
    ]
