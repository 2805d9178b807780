"""Contend: ways to do one thing, timed in turns, and how far their figures can be trusted."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from pydantic import NonNegativeFloat, PositiveFloat

from headrace.profiling.number_format import counted, decimal, percent
from headrace.profiling.provenance import Record
from headrace.profiling.resource_usage import cpu_seconds, machine_cpu_seconds
from headrace.runtime.clock import Clock

ALIKE: Final = 0.95
"""From this share of the best on, a row is as good as the best."""
UNSTEADY: Final = 0.25
"""From this spread between turns of one kind on, no verdict rests on them."""
DISTURBED: Final = 0.1
"""From this share of the usable cores on that other programs take, times cannot be compared."""
SAME_AGAIN: Final = "The same again with nothing else running"
"""How the change begins where no verdict rests on what was measured."""
AGAIN: Final = f"{SAME_AGAIN}, or with more --repeats."

OnProgress = Callable[[str, int, int], None]
"""Called with what begins, how much is done, and of how much (0: unknown)."""
OnWord = Callable[[str], None]
"""Called with a sentence for the user who waits."""


def unseen(what: str, done: int, of: int) -> None:
    """Report nothing."""


def unheard(words: str) -> None:
    """Report nothing."""


Contender = TypeVar("Contender")
Taken = TypeVar("Taken")
Key = TypeVar("Key", bound=Hashable)


class Repetition(Record):
    """What one turn took; what else it came to, each benchmark adds."""

    seconds: PositiveFloat
    """Wall time."""
    cpu_seconds: NonNegativeFloat
    """Processor time of all processes of this run."""
    others_cpu_seconds: NonNegativeFloat | None = None
    """Processor time that anything else took meanwhile on the same cores; None in records made
    before it was kept."""

    @property
    def rate(self) -> float:
        """What was achieved in a second: turns, until a benchmark says what it counts."""
        return 1 / self.seconds

    @property
    def cores(self) -> float:
        """Processor time ÷ wall time: 1 is one core busy throughout."""
        return self.cpu_seconds / self.seconds


class Stopwatch:
    """Wall and processor time since it was made."""

    def __init__(self, clock: Clock) -> None:
        """Start; takes some milliseconds first, to read the processor time."""
        self._clock = clock
        self._own, self._all = cpu_seconds(), machine_cpu_seconds()
        self._started_ns = clock.now_ns()

    @property
    def seconds(self) -> float:
        """Wall time so far."""
        return (self._clock.now_ns() - self._started_ns) / 1e9

    def turn(self, seconds: float) -> Repetition:
        """Return what was taken so far; `seconds` is the wall time when the work was done."""
        own, everything = cpu_seconds() - self._own, machine_cpu_seconds() - self._all
        return Repetition(
            seconds=seconds, cpu_seconds=own, others_cpu_seconds=max(0.0, everything - own)
        )


def interleave(
    contenders: Sequence[Contender],
    take: Callable[[Contender], Taken],
    *,
    repeats: int,
    label: Callable[[Contender], str] = str,
    warm_up: Contender | None = None,
    on_progress: OnProgress = unseen,
) -> tuple[Taken, ...]:
    """Let all contenders take a turn, then all of them again, so that none has all the luck.

    Args:
        contenders: What is compared.
        take: Runs one turn of one of them and returns what it took.
        repeats: Repetitions of each.
        label: What progress calls it.
        warm_up: This one goes first without being counted: it brings files into memory, and what
            cannot be measured comes to light in it. None where every turn warms up by itself.
        on_progress: Called before each turn.
    """
    uncounted = [] if warm_up is None else [warm_up]
    turns = [*uncounted, *list(contenders) * repeats]
    taken = []
    for number, each in enumerate(turns):
        on_progress(label(each), number, len(turns))
        taken.append(take(each))
    return tuple(taken[len(uncounted) :])


@dataclass(frozen=True, kw_only=True)
class MedianRange:
    """The same measured several times."""

    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Return the spread of at least one value."""
        return cls(median=median(values), lowest=min(values), highest=max(values))

    @property
    def share(self) -> float:
        """(Highest - lowest) ÷ median. Above 0.05, medians that differ by less are alike."""
        return (self.highest - self.lowest) / self.median


def grouped(turns: Sequence[Taken], key: Callable[[Taken], Key]) -> dict[Key, list[Taken]]:
    """Return the turns of each contender, in the order they first came."""
    groups: dict[Key, list[Taken]] = {}
    for turn in turns:
        groups.setdefault(key(turn), []).append(turn)
    return groups


def cores_of_others(turns: Sequence[Repetition]) -> float | None:
    """Cores that other programs kept busy meanwhile, the median turn; None if that is unknown."""
    known = [t.others_cpu_seconds / t.seconds for t in turns if t.others_cpu_seconds is not None]
    return median(known) if known else None


def disturbance(others: float, cores: int) -> list[str]:
    """Say that other programs kept so many of the usable cores busy; nothing of up to a tenth."""
    if others <= DISTURBED * cores:
        return []
    return [
        f"Other programs kept up to {decimal(others)} of {counted(cores, 'usable core')} busy "
        "meanwhile: times are longer than on a quiet machine, and not all by as much."
    ]


Timing = TypeVar("Timing", bound=Repetition)


@dataclass(frozen=True, kw_only=True)
class RepetitionRow(Generic[Timing]):
    """The turns of one contender, at least one, and medians over them."""

    turns: Sequence[Timing]

    @classmethod
    def by(cls, key: Callable[[Timing], Any], turns: Sequence[Timing]) -> tuple[Self, ...]:
        """Return a row for each key that turns have, ascending."""
        return tuple(cls(turns=own) for _, own in sorted(grouped(turns, key).items()))

    @property
    def first(self) -> Timing:
        """The first turn, which tells what all of them have in common."""
        return self.turns[0]

    @cached_property
    def rate(self) -> MedianRange:
        """What each turn achieved in a second."""
        return MedianRange.of([turn.rate for turn in self.turns])

    @property
    def cores(self) -> float:
        """Processor time ÷ wall time: 1 is one core busy throughout."""
        return self.median(lambda turn: turn.cores)

    @property
    def others(self) -> float | None:
        """Cores that other programs kept busy meanwhile; None if that is unknown."""
        return cores_of_others(self.turns)

    def median(self, figure: Callable[[Timing], float]) -> float:
        """Return the median over the turns of what `figure` gives for a turn."""
        return median(figure(turn) for turn in self.turns)


class Timed(Protocol):
    """A row of what contended."""

    @property
    def rate(self) -> MedianRange:
        """What each turn achieved in a second."""
        ...

    @property
    def others(self) -> float | None:
        """Cores that other programs kept busy meanwhile; None if that is unknown."""
        ...


@dataclass(frozen=True, kw_only=True)
class NoiseCheck:
    """How far the figures of some rows can be trusted."""

    spread: float
    """The largest share of a row."""
    others: float
    """The most cores that other programs kept busy."""
    cores: int
    """Those this process may use."""

    @classmethod
    def of(cls, rows: Sequence[Timed], cores: int) -> Self:
        """Return how far these rows can be trusted, at least one."""
        return cls(
            spread=max(row.rate.share for row in rows),
            others=max(row.others or 0.0 for row in rows),
            cores=cores,
        )

    @property
    def is_disturbed(self) -> bool:
        """Whether other programs took so much that times cannot be compared."""
        return bool(disturbance(self.others, self.cores))

    @property
    def is_unsteady(self) -> bool:
        """Whether turns of one kind differ so much that no verdict rests on them."""
        return self.spread > UNSTEADY

    @property
    def doubt(self) -> str:
        """Why there is no verdict, as the beginning of a sentence; empty where there is one."""
        if self.is_disturbed:
            return "Other programs ran meanwhile, so it is uncertain"
        return "Too unsteady to say" if self.is_unsteady else ""

    def sentences(self, turns: str) -> list[str]:
        """Say what speaks against the figures; `turns` names turns of one kind."""
        said = disturbance(self.others, self.cores)
        if self.spread > 1 - ALIKE:
            said.append(
                f"{turns} differ by up to {percent(self.spread)}: rows closer than that cannot be "
                "told apart."
            )
        return said


Ranked = TypeVar("Ranked", bound=Timed)


def fastest(rows: Sequence[Ranked]) -> Ranked:
    """Return the row of the highest median rate, the first of equals."""
    return max(rows, key=lambda row: row.rate.median)


def as_fast(rows: Sequence[Ranked]) -> list[Ranked]:
    """Return the fastest row and those that cannot be told from it, in their order.

    These are within 5 % of it, or as close as the turns of one row differ.
    """
    alike = min(ALIKE, 1 - max(row.rate.share for row in rows))
    return [row for row in rows if row.rate.median >= alike * fastest(rows).rate.median]
