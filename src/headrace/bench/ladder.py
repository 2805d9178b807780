"""Saturation of rows, and binary search for the highest load that meets a limit.

level = next_level(tried, scale)  # try it, append the result to `tried`, repeat until None
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, Protocol, TypeVar

from headrace.bench.charts import Line, lines
from headrace.measuring.interleaved import AGAIN, ALIKE, NoiseCheck, Timed, fastest
from headrace.profiling.findings.finding import Change, Finding
from headrace.profiling.number_format import decimal, percent
from headrace.report.page import MARK, Chart

Ranked = TypeVar("Ranked", bound=Timed)


@dataclass(frozen=True, kw_only=True)
class Saturation(Generic[Ranked]):
    """Rows with increasing amounts of a resource, at least one, and their names in sentences."""

    rows: Sequence[Ranked]
    candidates: Sequence[Ranked] = ()
    """Rows that may be the saturation point, in order; empty: all."""
    unit: str
    """Unit of the rate: `frames/s`."""
    label: Callable[[Ranked], str]
    """Row → its name in sentences: `2 workers`."""
    subject: str = "the rate"
    """Subject of the sentences on saturation: `memory`."""
    setting: Callable[[Ranked], str]
    """Row → its setting: `num_workers=2`."""
    surplus: str
    """Effect of more than the saturation point: `more only cost memory`."""
    further: str
    """Options to try next if saturation is not reached: `a larger --workers`."""

    @property
    def point(self) -> Ranked:
        """First candidate within 5 % of the fastest."""
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
        """Whether a row beyond the saturation point was measured."""
        return self.point is not self.rows[-1]

    def rate(self, row: Ranked) -> str:
        """`196 frames/s`."""
        return f"{decimal(row.rate.median)} {self.unit}"

    def finding(self, noise: NoiseCheck, evidence: Sequence[str]) -> Finding:
        """Return the saturation point as a finding with a change."""
        finding = Finding(headline=self._headline(noise), evidence=tuple(evidence))
        if len(self._eligible) == 1:
            return finding
        if noise.doubt:
            return replace(finding, change=AGAIN)
        setting, gain, advice = self.setting(self.point), self._gain, None
        more = f"; {self.surplus}"
        if not self.is_reached:
            more = f". The gain of more is unknown: try {self.further}"
        if gain:
            first = self.rows[0]
            rates = f"{self.rate(self.point)} against {self.rate(first)} with {self.label(first)}"
            times = self.point.rate.median / first.rate.median
            advice = Change(words=setting, gain=times, evidence=rates)
        change = f"{setting}{f': {gain}' if gain else ''}{more}."
        return replace(finding, change=change, advice=advice)

    def rule(self, least: str) -> list[str]:
        """Return sentences on the rule; `least` names the point: `the fewest workers`."""
        best, gain = fastest(self._eligible), self._gain
        limit = f"within {percent(1 - ALIKE)} of the best rate, {self.rate(best)}"
        sentences = [f"Saturation: {least} {limit} with {self.label(best)}."]
        return [*sentences, f"That is {gain}."] if gain else sentences

    def _headline(self, noise: NoiseCheck) -> str:
        point, rate = self.label(self.point), self.rate(self.point)
        if len(self._eligible) == 1:
            return f"{rate} with {point}"
        if noise.doubt:
            return f"{noise.doubt} where {self.subject} saturates; by the medians, at {point}"
        if not self.is_reached:
            before = self._eligible[-2]
            share = percent(before.rate.median / self.point.rate.median)
            return (
                f"No saturation of {self.subject} up to {point}: {rate}; {share} of this rate with "
                f"{self.label(before)}"
            )
        return f"{self.subject.capitalize()} saturates at {point}: {rate}"

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
        x_value: Callable[[Ranked], float],
        *others: Line,
        axis: str,
        name: str,
        title: str,
        reading: str,
    ) -> Chart:
        """Draw the rate by `x_value`, named by `axis`, with a ring at the saturation point."""
        median = Line("median", [(x_value(row), row.rate) for row in self.rows])
        point = Line(
            f"saturation: {self.label(self.point)}",
            [(x_value(self.point), self.point.rate.median)],
            color=MARK,
            mark="circle-open",
        )
        return lines(
            [median, point, *others],
            name=name,
            title=title,
            reading=reading,
            x={"title_text": axis, "tickvals": [position for position, _ in median.points]},
            y=self.unit,
            limits={f"{percent(ALIKE)} of the best": self.enough},
        )


_DOUBLE: Final = 2.0


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Range and resolution of loads."""

    first: float
    """First load to try; in [least, most]."""
    least: float
    most: float
    is_whole: bool = False
    """Whether loads are integers, for example streams; else rates with three digits."""
    close: float = 1.1
    """Max ratio of the lowest missed to the highest met load at the end of the search."""
    steps: int = 12
    """Max number of loads to try."""


class TriedLoad(Protocol):
    """One load, and whether it met the limit."""

    @property
    def level(self) -> float:
        """Load, in [Scale.least, Scale.most]."""
        ...

    @property
    def holds(self) -> bool:
        """Whether the limit was met."""
        ...


Load = TypeVar("Load", bound=TriedLoad)


def next_level(tried: Sequence[TriedLoad], scale: Scale) -> float | None:
    """Return the next load to try; None: the answer is known, or `scale.steps` loads were tried."""
    if not tried:
        return scale.first
    if len(tried) >= scale.steps:
        return None
    met, missed = highest_held(tried), lowest_broken(tried)
    if missed is None:
        assert met is not None
        level = None if met.level >= scale.most else min(scale.most, met.level * _DOUBLE)
    elif met is None:
        level = None if missed.level <= scale.least else max(scale.least, missed.level / _DOUBLE)
    else:
        level = _between(met.level, missed.level, scale)
    if level is None:
        return None
    return float(math.floor(level)) if scale.is_whole else float(f"{level:.3g}")


def highest_held(tried: Sequence[Load]) -> Load | None:
    """Return the highest load that met the limit, below all misses; None: none did."""
    missed = lowest_broken(tried)
    met = [load for load in tried if load.holds and (missed is None or load.level < missed.level)]
    return max(met, key=lambda load: load.level, default=None)


def lowest_broken(tried: Sequence[Load]) -> Load | None:
    """Return the lowest load that missed the limit; None: none did."""
    missed = (load for load in tried if not load.holds)
    return min(missed, key=lambda load: load.level, default=None)


def _between(met: float, missed: float, scale: Scale) -> float | None:
    if missed <= met * scale.close or (scale.is_whole and missed <= met + 1):
        return None
    return (met + missed) / 2 if scale.is_whole else math.sqrt(met * missed)
