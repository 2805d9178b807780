"""What bench split shows: rows, answer and charts, from its record alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from headrace.bench.benchmark import Experiment
from headrace.bench.charts import stacked_bars, way_bars
from headrace.bench.contest import ContestRow, Ranking, contest_columns, contest_rows
from headrace.bench.split import (
    WHOLE,
    SplitConfig,
    SplitRecord,
    in_turn,
    measure_split,
    pipelined,
)
from headrace.bench.split_cut import Cut
from headrace.bench.suite.suite_spec import Terms
from headrace.profiling.findings.finding import Change, Finding
from headrace.report.drawing import Chart
from headrace.report.experiment import Column
from headrace.report.numbers import counted, decimal


@dataclass(frozen=True, kw_only=True)
class SplitRow(ContestRow):
    """One way."""

    cut: Cut | None
    """None of the whole model."""


def rows_of(record: SplitRecord) -> tuple[SplitRow, ...]:
    """Return the whole model, then each cut in turn and pipelined."""
    cuts = {way(cut.layer): cut for cut in record.cuts for way in (in_turn, pipelined)}
    return tuple(SplitRow(**vars(row), cut=cuts.get(row.way)) for row in contest_rows(record))


def _answer(record: SplitRecord, rows: tuple[SplitRow, ...]) -> tuple[Finding, ...]:
    ranking = Ranking.of(record, rows, "frames")
    parts = max(rows[1:], key=lambda row: row.rate.median)
    rates = f"{ranking.rate(parts)} ({parts.way}) against {ranking.rate(rows[0])} whole"
    if ranking.trust.doubt:
        headline = f"{ranking.trust.doubt} whether a split pays; by the medians {rates}"
    elif ranking.is_won:
        headline = f"A split of {record.model} pays: {rates}"
    else:
        headline = f"No split of {record.model} pays here: {rates}"
    evidence = (*_evidence(record), *ranking.trust.sentences("Turns of one way"))
    changes = {
        pipelined(cut.layer): Change(
            words=f"--split-point {record.model}:{cut.layer} of headrace run",
            options={"split_point": f"{record.model}:{cut.layer}"},
        )
        for cut in record.cuts
    }
    advice, change = ranking.advice(changes), ranking.change()
    if ranking.is_won:
        times = f"{decimal(ranking.times(ranking.best))} times"
        change = f"{advice.words}: {times} the {ranking.rate(rows[0])} of the whole model."
    return (Finding(headline=headline, evidence=evidence, change=change, advice=advice),)


def _evidence(record: SplitRecord) -> Iterator[str]:
    if record.device == "cpu":
        yield (
            "Both parts run on the CPU: they share its cores, so that overlapping gains only what "
            "one batch at a time leaves idle. --device cuda puts the second part on a GPU."
        )
    for cut in record.cuts:
        longest = max(cut.first_ms, cut.transfer_ms, cut.second_ms)
        total = cut.first_ms + cut.transfer_ms + cut.second_ms
        yield (
            f"Behind {cut.layer} a frame takes {decimal(cut.first_ms)} + "
            f"{decimal(cut.transfer_ms)} + {decimal(cut.second_ms)} ms (first part, transfer, "
            "second part), one at a time: with a processor each, overlapping gains at most "
            f"{decimal(total / longest)} times; {decimal(cut.crossing_bytes / 1e3)} kB of a frame "
            "go from part to part."
        )
    apart = max(cut.difference for cut in record.cuts)
    same = "the same, bit for bit" if not apart else f"apart by {apart:.1g} of the largest at most"
    yield (
        f"Scores of {counted(record.compared, 'frame')} were {same}, before anything was timed "
        f"({record.allowed:g} is allowed)."
    )


def _rates(rows: tuple[SplitRow, ...]) -> Chart:
    layers = list(dict.fromkeys(row.cut.layer for row in rows if row.cut))
    found = {row.way: row.rate for row in rows}
    return way_bars(
        [WHOLE, *layers],
        {
            WHOLE: [found[WHOLE], *[None] * len(layers)],
            "in turn": [None, *(found[in_turn(layer)] for layer in layers)],
            "pipelined": [None, *(found[pipelined(layer)] for layer in layers)],
        },
        "frames/s",
        name="rates",
        title="Frames per second of the model",
        axis="cut behind",
        reading="The whole model, and in two parts behind each layer: one part after the other, "
        "and both at work at the same time on different batches.",
    )


def _parts(rows: tuple[SplitRow, ...]) -> Chart:
    cuts = list({row.cut.layer: row.cut for row in rows if row.cut}.values())
    return stacked_bars(
        [cut.layer for cut in cuts],
        {
            "first part": [cut.first_ms for cut in cuts],
            "transfer": [cut.transfer_ms for cut in cuts],
            "second part": [cut.second_ms for cut in cuts],
        },
        "ms per frame",
        name="parts",
        title="Time of a frame in each part",
        axis="cut behind",
        reading="One batch at a time, medians over the batches. Parts that overlap take at least "
        "the longest of these.",
    )


def _part(row: SplitRow, name: str) -> str:
    return "-" if row.cut is None else decimal(getattr(row.cut, name))


SPLIT: Final[Experiment[SplitConfig, SplitRecord, SplitRow]] = Experiment(
    name="split",
    summary="Time a model whole and split behind some layers; prove first that it scores the same.",
    config=SplitConfig,
    record=SplitRecord,
    measure=measure_split,
    title=lambda record: (
        f"Frames per second, whole and split: {record.model}, first part on cpu, second on "
        f"{record.device}"
    ),
    rows=rows_of,
    columns=(
        *contest_columns("way", "frames"),
        Column("first ms", lambda row: _part(row, "first_ms")),
        Column("transfer ms", lambda row: _part(row, "transfer_ms")),
        Column("second ms", lambda row: _part(row, "second_ms")),
    ),
    reading=lambda record, rows: (
        "Of the model alone, on batches that lie in the CPU's memory; medians over the turns. "
        "Behind them a frame's time in each part and on the way between them, one batch at a time."
    ),
    answer=_answer,
    charts=lambda rows: (_rates(rows), _parts(rows)),
    names_machine=True,
    terms=Terms(concerns="model"),
)
