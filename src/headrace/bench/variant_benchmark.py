"""The kind of benchmark that asks which of several variants is the fastest.

A `VariantBenchmark` gives what only it knows: the variants, proved to do the same before anything
is timed, and what is said of them. Repetitions, rows, ranking, table, chart and answer are derived.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import cycle
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from pydantic import PositiveFloat

from headrace.bench.benchmark import Benchmark, BenchmarkRecord, Context
from headrace.bench.charts import bars
from headrace.bench.suite.suite_spec import SuiteSpec
from headrace.config_fields import Configuration
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
from headrace.report.drawing import Chart
from headrace.runtime.clock import Clock

NOT_TIMED: Final = "-"
"""In the table, where there is no figure."""
OF_MODEL_ALONE: Final = (
    "These are figures of the model alone: a run gains as much only where its model sets the pace."
)


class VariantRepetition(Repetition):
    """One variant, once."""

    way: str
    """The variant."""
    amount: PositiveFloat
    """How much was done, in the unit of the benchmark."""

    @property
    def rate(self) -> float:
        """How much was done in a second."""
        return self.amount / self.seconds


class VariantRecord(BenchmarkRecord):
    """What was measured."""

    turns: tuple[VariantRepetition, ...]
    """As they were timed."""


class RepeatedConfig(Configuration, Protocol):
    """A configuration that says how often each variant is timed."""

    @property
    def repeats(self) -> int:
        """Repetitions of each variant."""
        ...


Config = TypeVar("Config", bound=RepeatedConfig)
Recorded = TypeVar("Recorded", bound=VariantRecord)
Facts = TypeVar("Facts")
Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True)
class SelfTimedWork:
    """What a variant did that was under way before its turn, and that knows when it began."""

    amount: float
    seconds: float
    """Since what is not counted was done."""


Work = Callable[[], float | SelfTimedWork]
"""Does the work of one turn, and returns how much that was."""


@dataclass(frozen=True, kw_only=True)
class VariantSet(Generic[Recorded]):
    """Variants that are ready to be timed, as they have been proved to do the same."""

    variants: Mapping[str, Work]
    """The first one is what the others are compared with: what one would do without the benchmark.
    Empty where nothing can be timed."""
    record: Callable[..., Recorded]
    """Given `provenance` and `turns` after the last turn: the record."""
    settled: Callable[[str], AbstractContextManager[object]] = lambda variant: nullcontext()
    """Given a variant: its turn is taken inside; entering and leaving are not timed."""


def for_seconds(
    items: Iterable[Item], do: Callable[[Item], int], *, seconds: float, clock: Clock
) -> Work:
    """Return work that does item after item for so long, again from the first, and one at least.

    Args:
        items: What is done, at least one.
        do: Does one; returns how much that was.
        seconds: How long a turn takes, about.
        clock: What measures.
    """

    def work() -> float:
        stop_ns, amount = clock.now_ns() + round(seconds * 1e9), 0
        for item in cycle(items):
            amount += do(item)
            if clock.now_ns() >= stop_ns:
                break
        return amount

    return work


def time_variants(
    ready: VariantSet[Any], *, repeats: int, context: Context
) -> tuple[VariantRepetition, ...]:
    """Time each variant `repeats` times, in turns; the first goes before them uncounted."""

    def take(variant: str) -> VariantRepetition:
        with ready.settled(variant):
            watch = Stopwatch(context.clock)
            done = ready.variants[variant]()
            if not isinstance(done, SelfTimedWork):
                done = SelfTimedWork(amount=done, seconds=watch.seconds)
            spent = watch.turn(done.seconds)
        return VariantRepetition(way=variant, amount=done.amount, **spent.model_dump())

    names = list(ready.variants)
    if not names:
        return ()
    return interleave(
        names, take, repeats=repeats, warm_up=names[0], on_progress=context.on_progress
    )


@dataclass(frozen=True, kw_only=True)
class VariantRow(RepetitionRow[VariantRepetition], Generic[Facts]):
    """One variant: its turns, none where it was not timed, and what else is known of it."""

    variant: str
    facts: Facts

    @property
    def ms(self) -> MedianRange:
        """Milliseconds that one takes."""
        low, high = 1e3 / self.rate.highest, 1e3 / self.rate.lowest
        return MedianRange(median=1e3 / self.rate.median, lowest=low, highest=high)


Rows = tuple[VariantRow[Facts], ...]


def figure(head: str, value: Callable[[VariantRow[Any]], float]) -> Column[VariantRow[Any]]:
    """Return the column of a figure that only variants have that were timed."""
    return Column(head, lambda row: decimal(value(row)) if row.turns else NOT_TIMED)


def rate_columns(head: str, unit: str) -> tuple[Column[VariantRow[Any]], ...]:
    """Return the columns: the variant under `head`, its rate, and the slowest and fastest turn."""
    return (
        Column(head, lambda row: row.variant),
        figure(f"{unit}/s", lambda row: row.rate.median),
        figure("slowest", lambda row: row.rate.lowest),
        figure("fastest", lambda row: row.rate.highest),
    )


class RankedRow(Timed, Protocol):
    """The turns of one variant."""

    @property
    def variant(self) -> str:
        """Its name."""
        ...


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """How variants that were timed rank, and how certain that is."""

    rows: tuple[RankedRow, ...]
    """At least one; the first is what the others are compared with."""
    unit: str
    """Of what they do: `frames`."""
    trust: NoiseCheck

    @classmethod
    def of(cls, record: BenchmarkRecord, rows: tuple[RankedRow, ...], unit: str) -> Self:
        """Return how the rows of a record rank."""
        return cls(rows=rows, unit=unit, trust=record.trust(rows))

    @property
    def first(self) -> RankedRow:
        """What the others are compared with."""
        return self.rows[0]

    @property
    def best(self) -> RankedRow:
        """The highest median."""
        return fastest(self.rows)

    @property
    def alike(self) -> list[str]:
        """The variants that cannot be told from the best, in their order: see `as_fast`."""
        return [row.variant for row in as_fast(self.rows)]

    @property
    def is_won(self) -> bool:
        """Whether another than the first is faster beyond doubt."""
        return not self.trust.doubt and self.first.variant not in self.alike

    def times(self, row: RankedRow) -> float:
        """Return how many times as fast as the first a row is."""
        return row.rate.median / self.first.rate.median

    def rate(self, row: RankedRow) -> str:
        """`1,234 frames/s`."""
        return f"{decimal(row.rate.median)} {self.unit}/s"

    def headline(self, doubtful: str = "", won: str = "", even: str = "") -> str:
        """Return the verdict; by default it names the fastest.

        Args:
            doubtful: What cannot be said, behind the reason.
            won: What is said where another than the first is faster.
            even: What is said where none is.
        """
        if self.trust.doubt:
            which = f"which is the fastest; by the median {self.best.variant}"
            return f"{self.trust.doubt} {doubtful or which}"
        named = f"Fastest is {' and '.join(self.alike)}: {self.rate(self.best)}"
        return (won if self.is_won else even) or named

    def change(self, do: str = "", of: str = "") -> str:
        """Return what to do: as the best does, nothing, or measure again.

        Args:
            do: What makes it go as the best does; by default the best is named.
            of: What the gain is on; by default the first is named.
        """
        if self.trust.doubt:
            return AGAIN
        if not self.is_won:
            return f"No gain is known: nothing here is clearly faster than {self.first.variant}."
        gain = f"{decimal(self.times(self.best))} times the {self.rate(self.first)}"
        return f"{do or self.best.variant}: {gain} {of or f'of {self.first.variant}'}."

    def advice(self, changes: Mapping[str, Change]) -> Change:
        """Return the same as a value: a gain of 1 where the first is as fast as any.

        Args:
            changes: Variant -> what makes a run do the same; without one, it is named.
        """
        first, best = self.first, self.best
        if self.trust.doubt:
            return Change(words=AGAIN.rstrip("."), evidence="turns that cannot be told apart")
        if not self.is_won:
            evidence = f"{self.rate(first)}, the fastest {self.rate(best)}"
            return Change(words=f"stay with {first.variant}", gain=1.0, evidence=evidence)
        evidence = f"{self.rate(best)} against {self.rate(first)} of {first.variant}"
        change = changes.get(best.variant, Change(words=best.variant))
        return replace(change, gain=self.times(best), evidence=evidence)


@dataclass(frozen=True, kw_only=True)
class VariantBenchmark(Generic[Config, Recorded, Facts]):
    """Which of several variants is the fastest; `benchmark()` returns it as it is registered."""

    name: str
    summary: str
    config: type[Config]
    record: type[Recorded]
    prepare: Callable[[Config, Context], AbstractContextManager[VariantSet[Recorded]]]
    """Proves that all variants do the same, and gives them; what it holds open lasts until the
    last turn."""
    title: Callable[[Recorded], str]
    reading: Callable[[Recorded, Rows[Facts]], str] = lambda record, rows: "Medians over the turns."
    head: str = "variant"
    """What a variant is: `precision`."""
    unit: str = "frames"
    facts: Callable[[Recorded], Mapping[str, Facts]] = lambda record: {}
    """Variant -> what else is known of it, also of those that were not timed, in the order of the
    rows; empty: nothing is."""
    columns: tuple[Column[VariantRow[Facts]], ...] = ()
    """Of the table; none: `rate_columns`."""
    ranks: Callable[[VariantRow[Facts]], bool] = lambda row: True
    """Whether a variant that was timed can be the answer."""
    headline: Callable[[Recorded, Rows[Facts], Ranking], str] = lambda *known: known[-1].headline()
    change: Callable[[Recorded, Rows[Facts], Ranking], str] = lambda *known: known[-1].change()
    changes: Callable[[Recorded], Mapping[str, Change]] = lambda record: {}
    """Variant -> what makes a run do the same."""
    evidence: Callable[[Recorded, Rows[Facts], Ranking], Iterable[str]] = lambda *known: ()
    """What else is said, a sentence each."""
    not_timed: Callable[[Recorded, Rows[Facts]], Finding] | None = None
    """The answer where no variant was timed; None: there is always one."""
    answer: Callable[[Recorded, Rows[Facts]], tuple[Finding, ...]] | None = None
    """In the place of all of these from `ranks` on."""
    rates: tuple[str, str] | None = ("Rate by variant", "All variants take turns.")
    """Title and reading of the chart of rates; None: there is none."""
    charts: Callable[[Rows[Facts]], tuple[Chart, ...]] = lambda rows: ()
    """Further ones."""
    turns_of: str = "Repetitions of one way"
    """What the turns are called that should be alike."""
    announce: Callable[[Config], str] | None = None
    terms: SuiteSpec[Config] = field(default_factory=SuiteSpec)

    def benchmark(self) -> Benchmark[Config, Recorded, VariantRow[Facts]]:
        """Return it as a value of the registry."""
        shared = ("name", "summary", "config", "record", "measure", "title", "rows", "reading")
        return Benchmark(
            **{name: getattr(self, name) for name in (*shared, "announce", "terms")},
            columns=self.columns or rate_columns(self.head, self.unit),
            answer=self.answer or self.findings,
            charts=lambda record, rows: self.all_charts(rows),
            names_machine=True,
        )

    def measure(self, config: Config, context: Context) -> Recorded:
        """Prepare the variants, and time them in turns.

        Raises:
            HeadraceError: as `prepare` does.
        """
        made = context.provenance(config)
        with self.prepare(config, context) as ready:
            turns = time_variants(ready, repeats=config.repeats, context=context)
            return ready.record(provenance=made, turns=turns)

    def rows(self, record: Recorded) -> Rows[Facts]:
        """Return a row for each variant, in their order."""
        turns = grouped(record.turns, lambda turn: turn.way)
        facts: Any = self.facts(record)
        return tuple(
            VariantRow(variant=each, turns=turns.get(each, ()), facts=facts.get(each))
            for each in facts or turns
        )

    def findings(self, record: Recorded, rows: Rows[Facts]) -> tuple[Finding, ...]:
        """Return which variant is the fastest, and what it gains on the first."""
        timed = tuple(row for row in rows if row.turns and self.ranks(row))
        if not timed and self.not_timed is not None:
            return (self.not_timed(record, rows),)
        ranking = Ranking.of(record, timed, self.unit)
        said = (
            *self.evidence(record, rows, ranking),
            *ranking.trust.sentences(self.turns_of),
        )
        finding = Finding(
            headline=self.headline(record, rows, ranking),
            evidence=said,
            change=self.change(record, rows, ranking),
            advice=ranking.advice(self.changes(record)),
        )
        return (finding,)

    def all_charts(self, rows: Rows[Facts]) -> tuple[Chart, ...]:
        """Return the charts, that of the rates first."""
        if self.rates is None:
            return self.charts(rows)
        (title, reading), timed = self.rates, [row for row in rows if row.turns]
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
