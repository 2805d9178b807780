"""Interleaved repetitions of variants, and noise checks of their figures."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final, Generic, Protocol, Self, TypeVar

import numpy as np
from pydantic import NonNegativeFloat, PositiveFloat

from headrace.cached_property import cached_property
from headrace.profiling.figures import (
    BootstrapEstimate,
    RunSpread,
    ratio_estimate,
    relative,
    spread_within,
)
from headrace.profiling.findings.verdict import is_busy
from headrace.profiling.number_format import counted, decimal, fine_percent, percent, times
from headrace.profiling.provenance import Record
from headrace.profiling.resource_usage import cpu_seconds, machine_cpu_seconds
from headrace.runtime.clock import Clock
from headrace.runtime.distribution import Distribution

ALIKE: Final = 0.95
"""Share of the best rate from which a row ties with the best."""
UNSTEADY: Final = 0.25
"""Spread between repetitions above which there is no verdict."""
DISTURBED: Final = 0.1
"""Share of usable cores taken by other programs above which times cannot be compared."""
SAME_AGAIN: Final = "Measure again on an idle machine"
"""Start of the suggested change if there is no verdict."""
AGAIN: Final = f"{SAME_AGAIN}, or with more --repeats."
UNTESTED: Final = "no difference was tested"
"""End of the sentence on rows that were measured once."""

OnProgress = Callable[[str, int, int], None]
"""Called with the starting step's name, steps done, and total steps (0: unknown)."""
OnWord = Callable[[str], None]
"""Called with a message for the user."""


def unseen(what: str, done: int, of: int) -> None:
    """Ignore progress."""


def unheard(words: str) -> None:
    """Ignore a message."""


Contender = TypeVar("Contender")
Measured = TypeVar("Measured")
Key = TypeVar("Key", bound=Hashable)


class Repetition(Record):
    """Time of one repetition; benchmarks add their figures."""

    seconds: PositiveFloat
    """Wall time."""
    cpu_seconds: NonNegativeFloat
    """CPU time of this program's processes."""
    others_cpu_seconds: NonNegativeFloat | None = None
    """CPU time of other programs on the same cores; None in old records."""

    @property
    def rate(self) -> float:
        """Work per second: repetitions, unless a benchmark overrides it."""
        return 1 / self.seconds

    @property
    def cores(self) -> float:
        """CPU time ÷ wall time: 1 is one core busy throughout."""
        return self.cpu_seconds / self.seconds

    @property
    def step_times(self) -> Sequence[float]:
        """Times of its steps, of equal work, in any unit; empty: not kept."""
        return ()


class Stopwatch:
    """Wall and CPU time since its creation."""

    def __init__(self, clock: Clock) -> None:
        """Start; reading the CPU time takes some milliseconds."""
        self._clock = clock
        self._process_seconds, self._machine_seconds = cpu_seconds(), machine_cpu_seconds()
        self._started_ns = clock.now_ns()

    @property
    def seconds(self) -> float:
        """Wall time so far."""
        return (self._clock.now_ns() - self._started_ns) / 1e9

    def stop(self, seconds: float) -> Repetition:
        """Return the times so far; `seconds` is the wall time at the end of the work."""
        process = cpu_seconds() - self._process_seconds
        machine = machine_cpu_seconds() - self._machine_seconds
        return Repetition(
            seconds=seconds, cpu_seconds=process, others_cpu_seconds=max(0.0, machine - process)
        )


def interleave(
    contenders: Sequence[Contender],
    take: Callable[[Contender], Measured],
    *,
    repeats: int,
    label: Callable[[Contender], str] = str,
    warm_up: Contender | None = None,
    on_progress: OnProgress = unseen,
) -> tuple[Measured, ...]:
    """Run one repetition of each contender, then another round, `repeats` rounds in all.

    Args:
        contenders: Variants to compare.
        take: Runs one repetition of a contender and returns its times.
        repeats: Repetitions of each contender.
        label: Returns the name of a contender in progress messages.
        warm_up: Contender to run first, uncounted: it loads files into the page cache and fails
            early. None if every repetition warms up by itself.
        on_progress: Called before each repetition.
    """
    uncounted = [] if warm_up is None else [warm_up]
    schedule = [*uncounted, *list(contenders) * repeats]
    repetitions = []
    for done, contender in enumerate(schedule):
        on_progress(label(contender), done, len(schedule))
        repetitions.append(take(contender))
    return tuple(repetitions[len(uncounted) :])


@dataclass(frozen=True, kw_only=True)
class MedianRange:
    """Median, min and max of repeated measurements."""

    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Return the range of at least one value."""
        return cls(median=median(values), lowest=min(values), highest=max(values))

    @property
    def share(self) -> float:
        """(max - min) ÷ median; medians that differ by less are ties, if it is above 0.05."""
        return (self.highest - self.lowest) / self.median


def grouped(
    repetitions: Sequence[Measured], key: Callable[[Measured], Key]
) -> dict[Key, list[Measured]]:
    """Group repetitions by key, in order of first occurrence."""
    groups: dict[Key, list[Measured]] = {}
    for repetition in repetitions:
        groups.setdefault(key(repetition), []).append(repetition)
    return groups


def cores_of_others(repetitions: Sequence[Repetition]) -> float | None:
    """Return the median cores kept busy by other programs; None: unknown."""
    known = [
        t.others_cpu_seconds / t.seconds for t in repetitions if t.others_cpu_seconds is not None
    ]
    return median(known) if known else None


def others_cpu_share(repetitions: Iterable[Repetition]) -> float | None:
    """Return the share of other programs in the CPU time, in [0, 1]; None: unknown."""
    known = [t for t in repetitions if t.others_cpu_seconds is not None]
    others = sum(t.others_cpu_seconds or 0.0 for t in known)
    total = others + sum(t.cpu_seconds for t in known)
    return others / total if total else None


def disturbance(others: float, cores: int) -> list[str]:
    """Return a sentence on cores kept busy by other programs; empty up to a tenth."""
    if others <= DISTURBED * cores:
        return []
    return [
        f"Other programs kept up to {decimal(others)} of {counted(cores, 'usable core')} busy "
        "during the measurement, so times are longer than on an idle machine, by unequal amounts."
    ]


Timing = TypeVar("Timing", bound=Repetition)


@dataclass(frozen=True, kw_only=True)
class RepetitionRow(Generic[Timing]):
    """Repetitions of one contender, at least one, and their medians."""

    repetitions: Sequence[Timing]

    @classmethod
    def by(cls, key: Callable[[Timing], Any], repetitions: Sequence[Timing]) -> tuple[Self, ...]:
        """Return one row per key, ascending."""
        groups = sorted(grouped(repetitions, key).items())
        return tuple(cls(repetitions=group) for _, group in groups)

    @property
    def series(self) -> tuple[Sequence[Repetition], ...]:
        """All repetitions, grouped by kind."""
        return (self.repetitions,)

    @property
    def first(self) -> Timing:
        """First repetition, with the settings common to all."""
        return self.repetitions[0]

    @cached_property
    def rate(self) -> MedianRange:
        """Work per second."""
        return MedianRange.of([repetition.rate for repetition in self.repetitions])

    @property
    def cores(self) -> float:
        """CPU time ÷ wall time: 1 is one core busy throughout."""
        return self.median(lambda repetition: repetition.cores)

    @property
    def others(self) -> float | None:
        """Cores kept busy by other programs in all repetitions; None: unknown."""
        return cores_of_others([repetition for group in self.series for repetition in group])

    def median(self, figure: Callable[[Timing], float]) -> float:
        """Return the median of a figure over the repetitions."""
        return median(figure(repetition) for repetition in self.repetitions)

    def distribution(self, series: Callable[[Timing], Sequence[float]]) -> Distribution:
        """Return the distribution of at least one number over all repetitions."""
        numbers = [number for repetition in self.repetitions for number in series(repetition)]
        distribution = Distribution.of(numbers)
        assert distribution is not None
        return distribution


class RepeatSpread(Record):
    """Spread of rates over repetitions, assumed equal for all rows."""

    between: NonNegativeFloat
    """Relative standard deviation of a rate from repetition to repetition."""
    within: NonNegativeFloat | None
    """Mean relative standard error of the rate of one repetition, from its steps; None: unknown."""
    least: tuple[float, float] | None
    """Smallest detectable decrease (below 0) and increase between two rows; 0.1 is 10 %. None with
    one row."""

    @classmethod
    def of(cls, rows: Sequence[object]) -> Self | None:
        """Return the spread over all `RepetitionRow`s.

        None: no row was repeated, or a rate is 0.
        """
        timed = [row.repetitions for row in rows if isinstance(row, RepetitionRow)]
        groups = [repetitions for repetitions in timed if repetitions]
        spread = RunSpread.of([[repetition.rate for repetition in group] for group in groups])
        if spread is None:
            return None
        smallest, *larger = sorted(map(len, groups))
        reach = spread.reach(smallest, larger[0]) if larger else None
        return cls(
            between=relative(spread.deviation),
            within=spread_within(_estimate(repetition) for group in groups for repetition in group),
            least=None if reach is None else (relative(-reach), relative(reach)),
        )

    def sentences(self) -> Iterator[str]:
        """Yield sentences on the error of one rate and on the smallest detectable difference."""
        if self.within is not None:
            yield f"The rate of one repetition is known to within {fine_percent(self.within)}."
        if self.least is not None:
            rise = self.least[1]
            more = f"{fine_percent(rise)} faster than"
            if rise >= 1:
                more = f"{times(1 + rise)} as fast as"
            yield f"A row that is less than {more} another can be so by chance."


def _estimate(repetition: Repetition) -> BootstrapEstimate | None:
    times = np.asarray(repetition.step_times, dtype=np.float64)
    return ratio_estimate(np.ones(len(times)), times, seed=0)


class Timed(Protocol):
    """Row of a comparison."""

    @property
    def rate(self) -> MedianRange:
        """Work per second."""
        ...

    @property
    def others(self) -> float | None:
        """Cores kept busy by other programs; None: unknown."""
        ...

    @property
    def repetitions(self) -> Sequence[Repetition]:
        """Its repetitions."""
        ...


@dataclass(frozen=True, kw_only=True)
class NoiseCheck:
    """Noise check: spread between repetitions, and load of other programs."""

    rows: Sequence[Timed]
    """Checked rows, at least one."""
    cores: int
    """Usable cores of this process."""

    @cached_property
    def spread(self) -> float:
        """Largest spread of a row."""
        return max(row.rate.share for row in self.rows)

    @cached_property
    def others(self) -> float:
        """Max cores kept busy by other programs."""
        return max(row.others or 0.0 for row in self.rows)

    @property
    def is_disturbed(self) -> bool:
        """Whether other programs used too much CPU time to compare times."""
        return bool(disturbance(self.others, self.cores))

    @property
    def is_unsteady(self) -> bool:
        """Whether repetitions differ too much for a verdict."""
        return self.spread > UNSTEADY

    @property
    def doubt(self) -> str:
        """Reason there is no verdict, as the start of a sentence; empty: there is one."""
        if self.is_disturbed:
            return "Other programs ran during the measurement, so it is uncertain"
        return "The repetitions vary too much to say" if self.is_unsteady else ""

    @property
    def cpu_time_reason(self) -> str:
        """Reason to report CPU time instead of wall time; empty on an idle machine."""
        share = others_cpu_share(t for row in self.rows for t in row.repetitions)
        if share is None or not is_busy(share):
            return ""
        used = f"other programs used {percent(share)} of the CPU time"
        return f"CPU time instead of wall time, because {used}"

    def sentences(self, repetitions: str) -> list[str]:
        """Return sentences on noise; `repetitions` is the noun for repetitions of one row."""
        sentences = disturbance(self.others, self.cores)
        if all(len(row.repetitions) < 2 for row in self.rows):
            return [*sentences, f"Each row was measured once: {UNTESTED}."]
        spread = RepeatSpread.of(self.rows)
        differ = f"{repetitions} differ by up to {fine_percent(self.spread)}."
        return [*sentences, " ".join([differ, *(spread.sentences() if spread else ())])]


Ranked = TypeVar("Ranked", bound=Timed)


def fastest(rows: Sequence[Ranked]) -> Ranked:
    """Return the row with the highest median rate, the first of equals."""
    return max(rows, key=lambda row: row.rate.median)


def as_fast(rows: Sequence[Ranked]) -> list[Ranked]:
    """Return the rows tied with the fastest, in order.

    Ties are within 5 % of it, or within the spread of one row.
    """
    alike = min(ALIKE, 1 - max(row.rate.share for row in rows))
    return [row for row in rows if row.rate.median >= alike * fastest(rows).rate.median]
