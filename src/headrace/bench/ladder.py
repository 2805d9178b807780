"""Along a ladder: where rows saturate, and the highest load that holds.

level = next_level(tried, scale)  # try it, add what came of it, ask again, until None
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, Protocol, TypeVar

from headrace.bench.charts import Line, lines
from headrace.measuring.interleaved import AGAIN, ALIKE, NoiseCheck, Timed, fastest
from headrace.profiling.findings.finding import Change, Finding
from headrace.profiling.number_format import decimal, percent
from headrace.report.drawing import MARK, Chart

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
    setting: Callable[[Ranked], str]
    """The setting of a row: `num_workers=2`."""
    surplus: str
    """The effect of more than the point: `more only take memory`."""
    further: str
    """The options for the next try, where nothing saturated: `--workers with more`."""

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

    def finding(self, trust: NoiseCheck, evidence: Sequence[str]) -> Finding:
        """Return where it saturates and what to set; `evidence` are sentences below the answer."""
        finding = Finding(headline=self._headline(trust), evidence=tuple(evidence))
        if len(self._eligible) == 1:
            return finding
        if trust.doubt:
            return replace(finding, change=AGAIN)
        setting, gain = self.setting(self.point), self._gain
        more = f"; {self.surplus}"
        if not self.is_reached:
            more = f". What more gains is not known: {self.further} tells"
        change = f"{setting}{f': {gain}' if gain else ''}{more}."
        return replace(finding, change=change, advice=self._advice)

    def rule(self, least: str) -> list[str]:
        """Say what the answer rests on; `least` names it: `the fewest workers`."""
        best, gain = fastest(self._eligible), self._gain
        rule = f"within {percent(1 - ALIKE)} of the best, which is {self.rate(best)} with"
        said = [f"Saturation is {least} {rule} {self.label(best)}."]
        return [*said, f"That is {gain}."] if gain else said

    def _headline(self, trust: NoiseCheck) -> str:
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

    @property
    def _advice(self) -> Change | None:
        """The point against the first row, which is what one has without it; None if it is that."""
        first, point = self.rows[0], self.point
        if point is first:
            return None
        return Change(
            words=self.setting(point),
            gain=point.rate.median / first.rate.median,
            evidence=f"{self.rate(point)} against {self.rate(first)} with {self.label(first)}",
        )

    @property
    def _gain(self) -> str:
        """`1.96 times the 100 frames/s with 0 workers`; empty if the first row is the point."""
        first = self.rows[0]
        if self.point is first:
            return ""
        times = decimal(self.point.rate.median / first.rate.median)
        return f"{times} times the {self.rate(first)} with {self.label(first)}"

    def chart(
        self,
        place: Callable[[Ranked], float],
        *others: Line,
        axis: str,
        name: str,
        title: str,
        reading: str,
    ) -> Chart:
        """Draw the rate by `place`, a number that `axis` names, with a ring at the point."""
        places = [place(row) for row in self.rows]
        point = Line(
            name=f"saturation: {self.label(self.point)}",
            x=[place(self.point)],
            y=[self.point.rate.median],
            color=MARK,
            mark="circle-open",
        )
        return lines(
            [Line(name="median", x=places, y=[row.rate for row in self.rows]), point, *others],
            name=name,
            title=title,
            reading=reading,
            x={"title_text": axis, "tickvals": places},
            y=self.unit,
            limits={f"{percent(ALIKE)} of the best": self.enough},
        )


_DOUBLE: Final = 2.0


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Which loads there are."""

    first: float
    """Where to begin; in [least, most]."""
    least: float
    most: float
    is_whole: bool = False
    """Whether loads are whole numbers, as streams are; else rates, rounded to three digits."""
    close: float = 1.1
    """A load that holds and one that breaks this many times above it are close enough."""
    steps: int = 12
    """Most loads that are tried."""


class TriedLoad(Protocol):
    """One load, and whether it held."""

    @property
    def level(self) -> float:
        """Of `Scale`."""
        ...

    @property
    def holds(self) -> bool:
        """Whether it held."""
        ...


Load = TypeVar("Load", bound=TriedLoad)


def next_level(tried: Sequence[TriedLoad], scale: Scale) -> float | None:
    """Return the load to try next; None when the answer is known, or enough were tried."""
    if not tried:
        return scale.first
    if len(tried) >= scale.steps:
        return None
    held, broken = highest_held(tried), lowest_broken(tried)
    if broken is None:
        assert held is not None
        level = None if held.level >= scale.most else min(scale.most, held.level * _DOUBLE)
    elif held is None:
        level = None if broken.level <= scale.least else max(scale.least, broken.level / _DOUBLE)
    else:
        level = _between(held.level, broken.level, scale)
    if level is None:
        return None
    return float(math.floor(level)) if scale.is_whole else float(f"{level:.3g}")


def highest_held(tried: Sequence[Load]) -> Load | None:
    """Return the highest load that held below every one that broke; None if none did."""
    broken = lowest_broken(tried)
    held = [one for one in tried if one.holds and (broken is None or one.level < broken.level)]
    return max(held, key=lambda one: one.level, default=None)


def lowest_broken(tried: Sequence[Load]) -> Load | None:
    """Return the lowest load that broke; None if none did."""
    broken = (one for one in tried if not one.holds)
    return min(broken, key=lambda one: one.level, default=None)


def _between(held: float, broken: float, scale: Scale) -> float | None:
    if broken <= held * scale.close or (scale.is_whole and broken <= held + 1):
        return None
    return (held + broken) / 2 if scale.is_whole else math.sqrt(held * broken)
