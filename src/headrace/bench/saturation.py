"""Saturation: of rows that take ever more of something, the least that is fast enough."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import plotly.graph_objects as go

from headrace.bench.charts import dashed, error_bars
from headrace.measuring.interleaved import AGAIN, ALIKE, Timed, Trust, fastest
from headrace.profiling.findings.finding import Change, Finding
from headrace.report.drawing import MARK, PLAIN, Chart, draw
from headrace.report.numbers import decimal, percent

Ranked = TypeVar("Ranked", bound=Timed)


@dataclass(frozen=True, kw_only=True)
class Saturation(Generic[Ranked]):
    """Rows that take ever more of something, at least one, and how sentences name them."""

    rows: Sequence[Ranked]
    candidates: Sequence[Ranked] = ()
    """Those of the rows that may be the point, in their order; none: all of them."""
    unit: str
    """Of the rate: `frames/s`."""
    label: Callable[[Ranked], str]
    """What a sentence calls a row: `2 workers`."""
    subject: str = ""
    """What saturates, where that must be said: `memory`."""

    @property
    def point(self) -> Ranked:
        """The first candidate within 5 % of the fastest."""
        return next(row for row in self._eligible if row.rate.median >= self.enough)

    @property
    def enough(self) -> float:
        """95 % of the fastest candidate."""
        return ALIKE * fastest(self._eligible).rate.median

    @property
    def _eligible(self) -> Sequence[Ranked]:
        return self.candidates or self.rows

    @property
    def is_reached(self) -> bool:
        """Whether more than the point takes was measured, and gained nothing."""
        return self.point is not self.rows[-1]

    def rate(self, row: Ranked) -> str:
        """`196 frames/s`."""
        return f"{decimal(row.rate.median)} {self.unit}"

    def finding(
        self, trust: Trust, evidence: Sequence[str], *, setting: str, surplus: str, further: str
    ) -> Finding:
        """Return where it saturates and what to set.

        Args:
            trust: How far the figures can be trusted.
            evidence: Sentences below the answer.
            setting: What gives the point: `num_workers=2`.
            surplus: What more of it does: `more only take memory`.
            further: What measures further, where nothing saturated: `--workers with more`.
        """
        change: str | None
        advice = None
        if len(self._eligible) == 1:
            change = None
        elif trust.doubt:
            change = AGAIN
        else:
            gain = f": {self._gain()}" if self._gain() else ""
            change = f"{setting}{gain}; {surplus}."
            if not self.is_reached:
                change = f"{setting}{gain}. What more gains is not known: {further} tells."
            advice = self._advice(setting)
        return Finding(
            headline=self._headline(trust),
            evidence=tuple(evidence),
            change=change,
            advice=advice,
        )

    def rule(self, least: str) -> list[str]:
        """Say what the answer rests on; `least` names it: `the fewest workers`."""
        best, gain = fastest(self._eligible), self._gain()
        rule = f"within {percent(1 - ALIKE)} of the best, which is {self.rate(best)} with"
        said = [f"Saturation is {least} {rule} {self.label(best)}."]
        return [*said, f"That is {gain}."] if gain else said

    def _headline(self, trust: Trust) -> str:
        point, rate, subject = self.label(self.point), self.rate(self.point), self.subject
        if len(self._eligible) == 1:
            return f"{rate} with {point}"
        if trust.doubt:
            return f"{trust.doubt} where {subject or 'it'} saturates; by the rule at {point}"
        if not self.is_reached:
            before = self._eligible[-2]
            share = percent(before.rate.median / self.point.rate.median)
            of = f" of {subject}" if subject else ""
            return (
                f"No saturation{of} up to {point}: {rate}, {share} of it with {self.label(before)}"
            )
        saturates = f"{subject} saturates".strip().capitalize()
        return f"{saturates} at {point}: {rate}"

    def _advice(self, setting: str) -> Change | None:
        """The point against the first row, which is what one has without it; None if it is that."""
        first, point = self.rows[0], self.point
        if point is first:
            return None
        return Change(
            words=setting,
            gain=point.rate.median / first.rate.median,
            rests_on=f"{self.rate(point)} against {self.rate(first)} with {self.label(first)}",
        )

    def _gain(self) -> str:
        """`1.96 times the 100 frames/s with 0 workers`; empty if the first row is the point."""
        first = self.rows[0]
        if self.point is first:
            return ""
        times = decimal(self.point.rate.median / first.rate.median)
        return f"{times} times the {self.rate(first)} with {self.label(first)}"

    def chart(
        self, place: Callable[[Ranked], float], *, axis: str, name: str, title: str, reading: str
    ) -> Chart:
        """Draw the rate by `place`, a number that `axis` names, with a ring at the point."""
        rates, places = [row.rate for row in self.rows], [place(row) for row in self.rows]
        line = go.Scatter(
            name="median",
            x=places,
            y=[rate.median for rate in rates],
            mode="lines+markers",
            line={"color": PLAIN, "width": 1.8},
            marker={"size": 8},
            error_y=error_bars(rates, PLAIN),
            hovertemplate=f"%{{y:.0f}} {self.unit}<extra>%{{x}} {axis}</extra>",
        )
        mark = go.Scatter(
            name=f"saturation: {self.label(self.point)}",
            x=[place(self.point)],
            y=[self.point.rate.median],
            mode="markers",
            marker={"size": 15, "symbol": "circle-open", "color": MARK, "line": {"width": 2.5}},
            hoverinfo="skip",
        )
        least = f"{percent(ALIKE)} of the best"
        enough = dashed(MARK, x=[places[0], places[-1]], y=[self.enough] * 2, name=least)
        figure = draw([line, enough, mark], height=360)
        figure.update_xaxes(title_text=axis, tickvals=places)
        figure.update_yaxes(title_text=self.unit, rangemode="tozero")
        return Chart(name=name, title=title, reading=reading, figure=figure)
