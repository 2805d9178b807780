"""What `bench stability` shows: the smallest setting that is steady, and how steady others are."""

from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, pstdev
from typing import Final

import plotly.graph_objects as go

from headrace.bench.benchmark import Benchmark
from headrace.bench.charts import chart, dashed, error_bars, line, marks
from headrace.bench.stability import (
    ITERATIONS,
    Candidate,
    StabilityConfig,
    StabilityRecord,
    StabilityTurn,
    announce,
    measure_stability,
)
from headrace.bench.suite.suite_spec import Terms
from headrace.measuring.decode_counts import median_column
from headrace.measuring.interleaved import AGAIN, Spread, Trust, TurnsRow, grouped
from headrace.profiling.findings.finding import Change, Finding
from headrace.report.drawing import MARK, PLAIN, Chart
from headrace.report.experiment import Column
from headrace.report.numbers import counted, decimal, percent, seconds


@dataclass(frozen=True, kw_only=True)
class StabilityRow(TurnsRow[StabilityTurn]):
    """The turns of one candidate."""

    candidate: Candidate
    target: float

    @cached_property
    def cv(self) -> Spread:
        """CV of the FPS by iteration."""
        return Spread.of([turn.cv for turn in self.turns])

    @property
    def fps(self) -> tuple[float, ...]:
        """FPS by iteration, of the turn whose CV is nearest the median."""
        return min(self.turns, key=lambda turn: abs(turn.cv - self.cv.median)).fps

    @property
    def holds(self) -> bool:
        """Whether it is steady, by the median."""
        return self.cv.median < self.target

    @property
    def is_certain(self) -> bool:
        """Whether every turn says the same."""
        return self.cv.highest < self.target or self.cv.lowest >= self.target


def rows_of(record: StabilityRecord) -> tuple[StabilityRow, ...]:
    """Return a row for each candidate, the smallest first."""
    groups = grouped(record.turns, lambda turn: turn.candidate)
    return tuple(
        StabilityRow(turns=turns, candidate=candidate, target=record.target)
        for candidate, turns in sorted(groups.items())
    )


Rows = tuple[StabilityRow, ...]
_BURST: Final = 3.0
"""Times the mean FPS, from which an iteration is told as one of several results at once."""


def _best(rows: Rows) -> StabilityRow:
    """Return the smallest that is steady; where none is, the steadiest."""
    steady = [row for row in rows if row.holds]
    return steady[0] if steady else min(rows, key=lambda row: row.cv.median)


def _answer(record: StabilityRecord, rows: Rows) -> tuple[Finding, ...]:
    best, trust = _best(rows), Trust.of(rows, record.provenance.machine.usable_cores)
    verdict = _verdict(best)
    headline, change = verdict, _change(record, rows, best)
    if trust.doubt:
        headline = (
            f"{trust.doubt} from where on the frame rate is steady; by the medians: {verdict}"
        )
        change = AGAIN
    advice = None
    if not trust.doubt and best.holds and best is not rows[0]:
        advice = Change(
            words=f"{best.candidate}, for a steady rate",
            rests_on=_against(rows[0], best),
            options={"batch_size": best.candidate.batch_size}
            if best.candidate.queue_depth <= record.run_depth
            else {},
        )
    evidence = (*_evidence(record, rows, best), *trust.sentences("Rates of one candidate"))
    return (Finding(headline=headline, evidence=evidence, change=change, advice=advice),)


def _verdict(best: StabilityRow) -> str:
    found = f"CV {decimal(best.cv.median)}"
    if best.holds:
        return f"The frame rate is steady from {best.candidate} on: {found}, below {best.target:g}"
    return f"CV < {best.target:g} was not reached; the best is {found[3:]}, with {best.candidate}"


def _against(first: StabilityRow, best: StabilityRow) -> str:
    return (
        f"CV {decimal(best.cv.median)} instead of {decimal(first.cv.median)} with {first.candidate}"
    )


def _change(record: StabilityRecord, rows: Rows, best: StabilityRow) -> str | None:
    depth, size = best.candidate.queue_depth, best.candidate.batch_size
    if not best.holds:
        return _towards_steady(rows, best)
    if best is rows[0]:
        return None
    gain = _against(rows[0], best)
    if depth <= record.run_depth:
        return f"--batch-size {size} of headrace run, whose queues hold {record.run_depth}: {gain}."
    return (
        f"Pipeline(capacity={depth}) with batches of {size}: {gain}. The queues of headrace run "
        f"hold {record.run_depth}."
    )


def _towards_steady(rows: Rows, best: StabilityRow) -> str:
    larger = [row for row in rows if row.candidate.batch_size > best.candidate.batch_size]
    if not larger:
        return (
            "Larger --batch-sizes, with nothing else running: a batch that takes longer is "
            "disturbed less."
        )
    steadiest = min(larger, key=lambda row: row.cv.median)
    return (
        "No change is known but to have nothing else run: larger batches were less steady, CV "
        f"{decimal(steadiest.cv.median)} with {steadiest.candidate}."
    )


def _evidence(record: StabilityRecord, rows: Rows, best: StabilityRow) -> list[str]:
    median = f", the median of {record.repeats} turns" if record.repeats > 1 else ""
    said = [
        "FPS of an iteration is the frames of a batch ÷ the time since the batch before came out. "
        f"CV is standard deviation ÷ mean over {counted(record.iterations, 'iteration')}{median}."
    ]
    if record.repeats > 1:
        spread = f"{decimal(best.cv.lowest)} to {decimal(best.cv.highest)}"
        sides = "all on one side of" if best.is_certain else "on both sides of"
        said.append(f"Its turns came to {spread}, {sides} {record.target:g}.")
    intervals = decimal(best.median(lambda turn: turn.interval_cv))
    if max(best.fps) > _BURST * fmean(best.fps):
        said.append(
            f"Results that came out right after each other are iterations of up to "
            f"{decimal(max(best.fps))} frames/s, which weigh most in it; the intervals between "
            f"results have a CV of {intervals}."
        )
    if record.iterations < ITERATIONS:
        said.append(f"Fewer than {ITERATIONS} iterations are a look at it, no figure to quote.")
    if len(rows) > 1:
        said.append(
            "That a deeper queue is no less steady is taken for granted: shorter ones are tried "
            "only where the deepest is steady."
        )
    if record.unbegun is not None:
        unbegun = Candidate(batch_size=record.unbegun[0], queue_depth=record.unbegun[1])
        said.append(
            f"The search was cut short: there was no time for {unbegun} (--max-seconds "
            f"{record.max_seconds:g})."
        )
    if record.left_out:
        sizes = ", ".join(map(str, record.left_out))
        said.append(f"Not tried, as the video has fewer frames: batch size {sizes}.")
    left_out = [turn.warm_up for row in rows for turn in row.turns]
    fewest, most = min(left_out), max(left_out)
    results = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    said.append(
        f"Left out: the first {results} results of each turn, by the depth of the queues, while "
        f"these fill; and {seconds(record.model_seconds)} to make the model ready."
    )
    return said


def _by_iteration(rows: Rows) -> Chart:
    best = _best(rows)
    mean, band = fmean(best.fps), best.target
    count = list(range(1, len(best.fps) + 1))
    edges = [
        go.Scatter(
            name=name,
            x=[count[0], count[-1]],
            y=[mean * share] * 2,
            mode="lines",
            line={"width": 0},
            fill=fill,
            fillcolor="rgba(115,137,171,0.22)",
            hoverinfo="skip",
            showlegend=fill is not None,
        )
        for name, share, fill in (
            ("", 1 - band, None),
            (f"mean ± {percent(band)}", 1 + band, "tonexty"),
        )
    ]
    by_iteration = line(
        "FPS",
        count,
        best.fps,
        hover="%{y:.1f} frames/s<extra>iteration %{x}</extra>",
        line={"width": 1.4},
        marker={"size": 4},
    )
    average = dashed(MARK, x=[count[0], count[-1]], y=[mean] * 2, name=f"mean {decimal(mean)}")
    return chart(
        [*edges, by_iteration, average],
        name="iterations",
        title=f"FPS by iteration, {best.candidate}",
        reading="Frames of a batch ÷ the time since the batch before came out, of the turn with "
        f"the median CV. Its standard deviation is {decimal(pstdev(best.fps))} frames/s; where the "
        f"CV is {band:g} it is as wide as the band is to each side of the mean.",
        height=340,
        x="iteration",
        y="frames/s",
    )


def _by_candidate(rows: Rows) -> Chart:
    names = [_short(row) for row in rows]
    spreads = [row.cv for row in rows]
    medians = marks(
        "median CV",
        names,
        [cv.median for cv in spreads],
        hover="%{y:.3f}<extra>%{x}</extra>",
        error_y=error_bars(spreads, PLAIN),
        size=10,
        color=PLAIN,
    )
    target = dashed(MARK, x=names, y=[rows[0].target] * len(names), name=f"{rows[0].target:g}")
    return chart(
        [medians, target],
        name="cv",
        title="CV by batch size and queue depth",
        reading="One mark for each candidate that was tried; the bars reach from the steadiest "
        "turn to the least steady. Below the dashed line is steady.",
        height=300,
        x={"title_text": "batch size × queue depth", "type": "category"},
        y="CV of FPS by iteration",
    )


def _short(row: StabilityRow) -> str:
    return f"{row.candidate.batch_size} × {row.candidate.queue_depth}"


STABILITY: Final[Benchmark[StabilityConfig, StabilityRecord, StabilityRow]] = Benchmark(
    name="stability",
    summary="Search the smallest batch size and queue depth with which the frame rate is steady.",
    config=StabilityConfig,
    record=StabilityRecord,
    measure=measure_stability,
    announce=announce,
    title=lambda record: (
        f"Steadiness of the frame rate: FPS over {counted(record.iterations, 'iteration')} of "
        "decode, preprocess, model"
    ),
    rows=rows_of,
    columns=(
        Column("batch × queue", _short),
        Column("CV", lambda row: decimal(row.cv.median)),
        Column("lowest", lambda row: decimal(row.cv.lowest)),
        Column("highest", lambda row: decimal(row.cv.highest)),
        median_column("intervals", lambda turn: turn.interval_cv),
        Column("mean FPS", lambda row: decimal(fmean(row.fps))),
        Column("std FPS", lambda row: decimal(pstdev(row.fps))),
        Column("frames/s", lambda row: decimal(row.rate.median)),
        Column("steady", lambda row: "yes" if row.holds else "no"),
    ),
    reading=lambda record, rows: (
        "CV is that of the FPS by iteration, median, lowest and highest turn; beside it that of "
        "the intervals between results. Mean and standard deviation (std) are of the turn nearest "
        "the median. Frames/s is frames ÷ time: a mean of rates is higher wherever they vary."
    ),
    answer=_answer,
    charts=lambda rows: (_by_iteration(rows), _by_candidate(rows)),
    terms=Terms(
        config=lambda videos: StabilityConfig(videos=videos[:1], max_seconds=45, repeats=2)
    ),
)
