"""Names of `bench/variant_benchmark.py` as they were, until all benchmarks take the new ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from headrace.bench.benchmark import BenchmarkRecord, Context
from headrace.bench.variant_benchmark import Done, VariantSet, time_variants
from headrace.bench.variant_benchmark import VariantRecord as ContestRecord
from headrace.bench.variant_benchmark import VariantTurn as ContestTurn
from headrace.bench.variant_benchmark import Work as Way
from headrace.measuring.interleaved import (
    AGAIN,
    Spread,
    Trust,
    as_fast,
    cores_of_others,
    fastest,
    grouped,
)
from headrace.profiling.findings.finding import Change, Finding
from headrace.report.experiment import Column
from headrace.report.numbers import decimal

__all__ = [
    "ContestRecord",
    "ContestRow",
    "ContestTurn",
    "Done",
    "Ranking",
    "Way",
    "contest_answer",
    "contest_columns",
    "contest_rows",
    "hold_contest",
]


@dataclass(frozen=True, kw_only=True)
class ContestRow:
    """The turns of one way."""

    way: str
    rate: Spread
    """How much was done in a second."""
    others: float | None


def hold_contest(
    ways: Mapping[str, Way], *, repeats: int, context: Context, settled: Any = None
) -> tuple[ContestTurn, ...]:
    """Time each way `repeats` times, in turns; the first goes before them uncounted."""
    more = {} if settled is None else {"settled": settled}
    ready = VariantSet(variants=ways, record=ContestRecord, **more)
    return time_variants(ready, repeats=repeats, context=context)


def contest_rows(record: ContestRecord) -> tuple[ContestRow, ...]:
    """Return a row for each way, in the order they were given."""
    return tuple(
        ContestRow(
            way=way,
            rate=Spread.of([turn.amount / turn.seconds for turn in turns]),
            others=cores_of_others(turns),
        )
        for way, turns in grouped(record.turns, lambda turn: turn.way).items()
    )


def contest_columns(head: str, unit: str) -> tuple[Column[ContestRow], ...]:
    """Return the columns: the way under `head`, its rate, and the slowest and fastest turn."""
    return (
        Column(head, lambda row: row.way),
        Column(f"{unit}/s", lambda row: decimal(row.rate.median)),
        Column("slowest", lambda row: decimal(row.rate.lowest)),
        Column("fastest", lambda row: decimal(row.rate.highest)),
    )


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """How ways that contended rank, and how certain that is."""

    rows: tuple[ContestRow, ...]
    """At least one; the first is what the others are compared with."""
    unit: str
    """Of what they do: `frames`."""
    trust: Trust

    @classmethod
    def of(cls, record: BenchmarkRecord, rows: tuple[ContestRow, ...], unit: str) -> Self:
        """Return how the rows of a record rank."""
        cores = record.provenance.machine.usable_cores
        return cls(rows=rows, unit=unit, trust=Trust.of(rows, cores))

    @property
    def first(self) -> ContestRow:
        """What the others are compared with."""
        return self.rows[0]

    @property
    def best(self) -> ContestRow:
        """The highest median."""
        return fastest(self.rows)

    @property
    def alike(self) -> list[str]:
        """The ways that cannot be told from the best, in their order: see `as_fast`."""
        return [row.way for row in as_fast(self.rows)]

    @property
    def is_won(self) -> bool:
        """Whether another than the first is faster beyond doubt."""
        return not self.trust.doubt and self.first.way not in self.alike

    def times(self, row: ContestRow) -> float:
        """Return how many times as fast as the first a row is."""
        return row.rate.median / self.first.rate.median

    def rate(self, row: ContestRow) -> str:
        """`1,234 frames/s`."""
        return f"{decimal(row.rate.median)} {self.unit}/s"

    def change(self) -> str:
        """Say what to do: as the best does, nothing, or measure again."""
        if self.trust.doubt:
            return AGAIN
        if not self.is_won:
            return f"No gain is known: nothing here is clearly faster than {self.first.way}."
        best = self.best
        gain = f"{decimal(self.times(best))} times the {self.rate(self.first)} of {self.first.way}"
        return f"{best.way}: {gain}."

    def advice(self, changes: Mapping[str, Change]) -> Change:
        """Return the same as a value: a gain of 1 where the first is as fast as any.

        Args:
            changes: Way -> what makes a run go this way; without one, it is named.
        """
        first, best = self.first, self.best
        if self.trust.doubt:
            return Change(words=AGAIN.rstrip("."), rests_on="turns that cannot be told apart")
        if not self.is_won:
            rests_on = f"{self.rate(first)}, the fastest {self.rate(best)}"
            return Change(words=f"stay with {first.way}", gain=1.0, rests_on=rests_on)
        rests_on = f"{self.rate(best)} against {self.rate(first)} of {first.way}"
        change = changes.get(best.way, Change(words=best.way))
        return replace(change, gain=self.times(best), rests_on=rests_on)


def contest_answer(
    record: ContestRecord,
    rows: tuple[ContestRow, ...],
    unit: str,
    *,
    changes: Mapping[str, Change] | None = None,
    evidence: Sequence[str] = (),
) -> tuple[Finding, ...]:
    """Return which way is the fastest, and what it gains on the first.

    Args:
        record: What was measured.
        rows: Its rows.
        unit: Of what the ways do: `frames`.
        changes: Way -> what makes a run go this way.
        evidence: What else is to be said, a sentence each.
    """
    ranking = Ranking.of(record, rows, unit)
    alike, best = ranking.alike, ranking.best
    headline = f"Fastest is {' and '.join(alike)}: {ranking.rate(best)}"
    if ranking.trust.doubt:
        headline = f"{ranking.trust.doubt} which is the fastest; by the median {best.way}"
    said = (*evidence, *ranking.trust.sentences("Turns of one way"))
    advice = ranking.advice(changes or {})
    return (Finding(headline=headline, evidence=said, change=ranking.change(), advice=advice),)
