"""A contest: which of several ways to do the same is the fastest, for experiments that ask no more.

`measure` returns a `ContestRecord` of what `hold_contest` returned; the rest is taken from here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pydantic import PositiveFloat

from headrace.experiments.contend import (
    AGAIN,
    Spread,
    Stopwatch,
    Trust,
    Turn,
    as_fast,
    cores_of_others,
    fastest,
    grouped,
    take_turns,
)
from headrace.experiments.experiment import Column, Context
from headrace.experiments.record import ExperimentRecord
from headrace.profiling.findings.finding import Finding
from headrace.report.numbers import decimal


class ContestTurn(Turn):
    """One way, once."""

    way: str
    amount: PositiveFloat
    """How much was done, in the unit that the experiment names."""


class ContestRecord(ExperimentRecord):
    """What was measured."""

    turns: tuple[ContestTurn, ...]
    """As they were timed."""


@dataclass(frozen=True, kw_only=True)
class ContestRow:
    """The turns of one way."""

    way: str
    rate: Spread
    """How much was done in a second."""
    others: float | None


def hold_contest(
    ways: Mapping[str, Callable[[], float]], *, repeats: int, context: Context
) -> tuple[ContestTurn, ...]:
    """Time each way `repeats` times, in turns; the first goes before them uncounted.

    A way does its work and returns how much that was. The first one is what the others are
    compared with: what one would do without this experiment.
    """

    def take(way: str) -> ContestTurn:
        watch = Stopwatch(context.clock)
        amount = ways[way]()
        return ContestTurn(way=way, amount=amount, **watch.turn(watch.seconds).model_dump())

    return take_turns(
        list(ways), take, repeats=repeats, warm_up=next(iter(ways)), on_progress=context.on_progress
    )


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


def contest_answer(
    record: ContestRecord, rows: tuple[ContestRow, ...], unit: str
) -> tuple[Finding, ...]:
    """Return which way is the fastest, and what it gains on the first."""
    first, best = rows[0], fastest(rows)
    trust = Trust.of(rows, record.provenance.machine.usable_cores)
    alike = [row.way for row in as_fast(rows)]
    gain = (
        f"{decimal(best.rate.median / first.rate.median)} times the "
        f"{decimal(first.rate.median)} {unit}/s of {first.way}"
    )
    headline = f"Fastest is {' and '.join(alike)}: {decimal(best.rate.median)} {unit}/s"
    change = f"No gain is known: nothing here is clearly faster than {first.way}."
    if trust.doubt:
        headline, change = f"{trust.doubt} which is the fastest; by the median {best.way}", AGAIN
    elif first.way not in alike:
        change = f"{best.way}: {gain}."
    evidence = trust.sentences("Turns of one way")
    return (Finding(headline=headline, evidence=tuple(evidence), change=change),)
