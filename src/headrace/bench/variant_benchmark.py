"""Benchmark of variants: which is the fastest.

A `VariantBenchmark` provides the variants, checked to be equal before timing, and its sentences.
This module provides repetitions, rows, ranking, table, chart and answer.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from itertools import cycle
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from pydantic import PositiveFloat

from headrace.bench.benchmark import Benchmark, BenchmarkDefinition, BenchmarkRecord, Context
from headrace.bench.charts import bars
from headrace.config_fields import Configuration
from headrace.measuring.decode_counts import rate_columns
from headrace.measuring.interleaved import (
    AGAIN,
    MedianRange,
    NoiseCheck,
    Repetition,
    RepetitionRow,
    Stopwatch,
    Timed,
    as_fast,
    fastest,
    grouped,
    interleave,
)
from headrace.profiling.findings.finding import Change, Finding
from headrace.profiling.number_format import decimal
from headrace.report.benchmark_page import Column
from headrace.report.page import Chart
from headrace.runtime.clock import Clock

UNCERTAIN: Final = Change(words=AGAIN.rstrip("."), evidence="no verdict: too much noise")
"""Advice if there is no verdict."""


class VariantRepetition(Repetition):
    """One repetition of one variant."""

    way: str
    """Name of the variant."""
    amount: PositiveFloat
    """Work done, in the unit of the benchmark."""

    @property
    def rate(self) -> float:
        """Work done per second."""
        return self.amount / self.seconds


class VariantRecord(BenchmarkRecord):
    """Repetitions of all variants."""

    turns: tuple[VariantRepetition, ...]
    """In timing order."""


class RepeatedConfig(Configuration, Protocol):
    """Configuration with a number of repetitions."""

    @property
    def repeats(self) -> int:
        """Repetitions of each variant."""
        ...


Config = TypeVar("Config", bound=RepeatedConfig)
Recorded = TypeVar("Recorded", bound=VariantRecord)
Facts = TypeVar("Facts")
Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True)
class ContinuousWork:
    """Work that runs continuously before, during and after a repetition, such as a pipeline."""

    begin: Callable[[], AbstractContextManager[Iterator[float]]]
    """Starts the work: a context with an endless iterator of amounts. The first one is not
    counted."""
    seconds: float
    """Approximate duration of a repetition."""


Work = Callable[[], float] | ContinuousWork
"""Work of one repetition: a function that does it and returns its amount, or continuous work."""


@dataclass(frozen=True, kw_only=True)
class VariantSet(Generic[Recorded]):
    """Variants ready for timing, checked to be equal."""

    variants: Mapping[str, Work]
    """Variant → work. The first variant, headrace's default, is the reference. Empty: no variant
    can be timed."""
    record: Callable[..., Recorded]
    """Called with `provenance` and `turns` after the last repetition; returns the record."""
    settled: Callable[[str], AbstractContextManager[object]] = lambda variant: nullcontext()
    """Variant → context of its repetition; entering and leaving are not timed."""


def for_seconds(
    items: Iterable[Item], do: Callable[[Item], float], *, seconds: float, clock: Clock
) -> Work:
    """Return work that processes items in a cycle for `seconds`, at least one.

    Args:
        items: Items to process, at least one.
        do: Processes an item; returns the amount of work.
        seconds: Approximate duration of a repetition.
        clock: Clock for the timings.
    """
    return lambda: _amount(map(do, cycle(items)), seconds, clock)


def _amount(amounts: Iterator[float], seconds: float, clock: Clock) -> float:
    """Return the sum of all amounts up to the first one that ends after `seconds`."""
    stop_ns, total = clock.now_ns() + round(seconds * 1e9), 0.0
    for amount in amounts:
        total += amount
        if clock.now_ns() >= stop_ns:
            break
    return total


def time_variants(
    variant_set: VariantSet[Any], *, repeats: int, context: Context
) -> tuple[VariantRepetition, ...]:
    """Time each variant `repeats` times, interleaved, after an uncounted run of the first."""
    clock = context.clock

    def timed(work: Work) -> tuple[float, Repetition]:
        if not isinstance(work, ContinuousWork):
            watch = Stopwatch(clock)
            amount = work()
            return amount, watch.stop(watch.seconds)
        with work.begin() as amounts:
            next(amounts)
            # The work continues while the stopwatch starts, so its time counts from here.
            start_ns, watch = clock.now_ns(), Stopwatch(clock)
            amount = _amount(amounts, work.seconds, clock)
            return amount, watch.stop((clock.now_ns() - start_ns) / 1e9)

    def take(variant: str) -> VariantRepetition:
        with variant_set.settled(variant):
            amount, times = timed(variant_set.variants[variant])
        return VariantRepetition(way=variant, amount=amount, **times.model_dump())

    names, on_progress = list(variant_set.variants), context.on_progress
    first = next(iter(names), None)
    return interleave(names, take, repeats=repeats, warm_up=first, on_progress=on_progress)


Prepare = Callable[[Config, Context], AbstractContextManager[VariantSet[Recorded]]]
"""Checks that all variants are equal, and yields them. Resources stay open until the last
repetition."""


def measure_variants(
    prepare: Prepare[Config, Recorded], config: Config, context: Context
) -> Recorded:
    """Prepare the variants and time them, interleaved.

    Raises:
        HeadraceError: see `prepare`.
    """
    provenance = context.provenance(config)
    with prepare(config, context) as variant_set:
        repetitions = time_variants(variant_set, repeats=config.repeats, context=context)
        return variant_set.record(provenance=provenance, turns=repetitions)


@dataclass(frozen=True, kw_only=True)
class VariantRow(RepetitionRow[VariantRepetition], Generic[Facts]):
    """One variant: its repetitions, empty if it was skipped, and its facts."""

    variant: str
    facts: Facts

    @property
    def ms(self) -> MedianRange:
        """Milliseconds per unit."""
        low, high = 1e3 / self.rate.highest, 1e3 / self.rate.lowest
        return MedianRange(median=1e3 / self.rate.median, lowest=low, highest=high)

    @property
    def cpu_ms(self) -> float:
        """CPU milliseconds per unit; above `ms` with several threads, below `ms` with a GPU."""
        return self.median(lambda repetition: 1e3 * repetition.cpu_seconds / repetition.amount)


Rows = tuple[VariantRow[Facts], ...]


def figure(head: str, value: Callable[[VariantRow[Any]], float]) -> Column[VariantRow[Any]]:
    """Return the column of a figure; skipped variants have no value."""
    return Column(head, lambda row: decimal(value(row) if row.repetitions else None))


class RankedRow(Timed, Protocol):
    """Repetitions of one variant."""

    @property
    def variant(self) -> str:
        """Its name."""
        ...


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Ranking of timed variants, with a noise check."""

    rows: tuple[RankedRow, ...]
    """At least one; the first is the reference."""
    unit: str
    """Unit of the work: `frames`."""
    noise: NoiseCheck

    @classmethod
    def of(cls, record: BenchmarkRecord, rows: tuple[RankedRow, ...], unit: str) -> Self:
        """Return the ranking of the rows of a record."""
        return cls(rows=rows, unit=unit, noise=record.noise(rows))

    @property
    def first(self) -> RankedRow:
        """Row of the reference."""
        return self.rows[0]

    @property
    def best(self) -> RankedRow:
        """Row with the highest median."""
        return fastest(self.rows)

    @property
    def alike(self) -> list[str]:
        """Variants tied with the best, in order: see `as_fast`."""
        return [row.variant for row in as_fast(self.rows)]

    @property
    def is_won(self) -> bool:
        """Whether another variant than the reference is clearly faster."""
        return not self.noise.doubt and self.first.variant not in self.alike

    def times(self, row: RankedRow) -> float:
        """Return the speedup of a row over the reference."""
        return row.rate.median / self.first.rate.median

    def rate(self, row: RankedRow) -> str:
        """`1,234 frames/s`."""
        return f"{decimal(row.rate.median)} {self.unit}/s"

    def headline(self, doubtful: str = "", won: str = "", even: str = "") -> str:
        """Return the verdict; by default, it names the fastest variant.

        Args:
            doubtful: Text after the reason for doubt, without a verdict.
            won: Text if another variant is faster than the first.
            even: Text if no variant is faster than the first.
        """
        if self.noise.doubt:
            which = f"which is fastest; by the medians, {self.best.variant}"
            return f"{self.noise.doubt} {doubtful or which}"
        fastest_variants = f"Fastest: {' and '.join(self.alike)}, {self.rate(self.best)}"
        return (won if self.is_won else even) or fastest_variants

    def change(self, do: str = "", of: str = "") -> str:
        """Return the recommended change: to the best variant, none, or to measure again.

        Args:
            do: Change to the best variant; by default, its name.
            of: Base of the gain; by default, the first variant's name.
        """
        if self.noise.doubt:
            return AGAIN
        if not self.is_won:
            return f"No gain: no variant is clearly faster than {self.first.variant}."
        gain = f"{decimal(self.times(self.best))} times the {self.rate(self.first)}"
        return f"{do or self.best.variant}: {gain} {of or f'of {self.first.variant}'}."

    def advice(self, changes: Mapping[str, Change]) -> Change:
        """Return the change as a value; its gain is 1 if no variant is faster than the reference.

        Args:
            changes: Variant → change of a run to use it; by default, its name.
        """
        first, best = self.first, self.best
        if self.noise.doubt:
            return UNCERTAIN
        if not self.is_won:
            evidence = f"{self.rate(first)}; fastest: {self.rate(best)}"
            return Change(words=f"keep {first.variant}", gain=1.0, evidence=evidence)
        evidence = f"{self.rate(best)} against {self.rate(first)} of {first.variant}"
        change = changes.get(best.variant, Change(words=best.variant))
        return replace(change, gain=self.times(best), evidence=evidence)


@dataclass(frozen=True, kw_only=True)
class VariantBenchmark(BenchmarkDefinition[Config, Recorded], Generic[Config, Recorded, Facts]):
    """Benchmark of variants; `benchmark()` returns its registry value."""

    prepare: Prepare[Config, Recorded]
    reading: Callable[[Recorded, Rows[Facts]], str] = lambda *known: "Medians over the repetitions."
    head: str = "variant"
    """Kind of variant, as a column header: `precision`."""
    facts: Callable[[Recorded], Mapping[str, Facts]] = lambda record: {}
    """Variant → facts, including skipped variants, in row order; empty: no facts."""
    columns: tuple[Column[VariantRow[Facts]], ...] = ()
    """Columns of the table; empty: the variant, its `rate_columns` and `further_columns`."""
    further_columns: tuple[Column[VariantRow[Facts]], ...] = ()
    ranks: Callable[[VariantRow[Facts]], bool] = lambda row: True
    """Whether a timed variant can be the answer."""
    headline: Callable[[Recorded, Rows[Facts], Ranking], str] = lambda *known: known[-1].headline()
    change: Callable[[Recorded, Rows[Facts], Ranking], str] = lambda *known: known[-1].change()
    changes: Callable[[Recorded], Mapping[str, Change]] = lambda record: {}
    """Variant → change of a run to use it."""
    evidence: Callable[[Recorded, Rows[Facts], Ranking], Iterable[str]] = lambda *known: ()
    """Further sentences."""
    not_timed: Callable[[Recorded, Rows[Facts]], Finding] | None = None
    """Answer if no variant was timed; None: at least one is always timed."""
    answer: Callable[[Recorded, Rows[Facts]], tuple[Finding, ...]] | None = None
    """Findings, in place of all fields from `ranks` on."""
    rates: tuple[str, str] | None = ("Rate by variant", "All variants are interleaved.")
    """Title and reading of the rate chart; None: no chart."""
    charts: Callable[[Rows[Facts]], tuple[Chart, ...]] = lambda rows: ()
    """Further charts."""
    turns_of: str = "Repetitions of one variant"
    """Noun for the repetitions of one row, in noise sentences."""

    def benchmark(self) -> Benchmark[Config, Recorded, VariantRow[Facts]]:
        """Return the registry value."""
        return Benchmark(
            **{field.name: getattr(self, field.name) for field in fields(BenchmarkDefinition)},
            measure=self.measure,
            rows=self.rows,
            reading=self.reading,
            columns=self.columns
            or (
                Column(self.head, lambda row: row.variant),
                *rate_columns(f"{self.unit}/s"),
                *self.further_columns,
            ),
            answer=self.answer or self.findings,
            charts=lambda record, rows: self.all_charts(rows),
        )

    def measure(self, config: Config, context: Context) -> Recorded:
        """Return the record of all variants: see `measure_variants`."""
        return measure_variants(self.prepare, config, context)

    def rows(self, record: Recorded) -> Rows[Facts]:
        """Return one row per variant, in order."""
        repetitions = grouped(record.turns, lambda repetition: repetition.way)
        facts: Any = self.facts(record)
        return tuple(
            VariantRow(
                variant=variant, repetitions=repetitions.get(variant, ()), facts=facts.get(variant)
            )
            for variant in facts or repetitions
        )

    def findings(self, record: Recorded, rows: Rows[Facts]) -> tuple[Finding, ...]:
        """Return the fastest variant and its gain over the reference."""
        timed = tuple(row for row in rows if row.repetitions and self.ranks(row))
        if not timed and self.not_timed is not None:
            return (self.not_timed(record, rows),)
        ranking = Ranking.of(record, timed, self.unit)
        sentences = (*self.evidence(record, rows, ranking), *ranking.noise.sentences(self.turns_of))
        finding = Finding(
            headline=self.headline(record, rows, ranking),
            evidence=sentences,
            change=self.change(record, rows, ranking),
            advice=ranking.advice(self.changes(record)),
        )
        return (finding,)

    def all_charts(self, rows: Rows[Facts]) -> tuple[Chart, ...]:
        """Return the charts, the rate chart first."""
        if self.rates is None:
            return self.charts(rows)
        (title, reading), timed = self.rates, [row for row in rows if row.repetitions]
        rates = bars(
            [row.variant for row in timed],
            {self.unit: [row.rate for row in timed]},
            f"{self.unit}/s",
            name="rates",
            title=title,
            reading=reading,
            axis=self.head,
        )
        return (rates, *self.charts(rows))
