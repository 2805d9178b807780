"""Rows of `bench sampling`: the turns of each strategy, and where memory saturates."""

from dataclasses import dataclass
from statistics import median
from typing import Final

from headrace.experiments.delivery import Turn
from headrace.experiments.sampling import SamplingRecord
from headrace.experiments.ways import Strategy, Way

ALIKE: Final = 0.95
"""From this share of the fastest on, a row counts as fast."""
LADDER: Final[tuple[Way, ...]] = ("naive", "quarter", "look-ahead")
"""Ways that draw the very same frames, in ever more memory: no frame held, a quarter, all of it."""


@dataclass(frozen=True, kw_only=True)
class SamplingRow:
    """The turns of one strategy; medians, each count per frame delivered."""

    strategy: Strategy
    images_per_second: float
    slowest: float
    """Images per second of the slowest turn."""
    fastest: float
    times: float
    """Images per second ÷ those of the baseline."""
    decoded: float
    """Frames decoded; near 1 is as cheap as reading in order, below 1 frames are used again."""
    cpu_ms: float
    """Processor time of all processes."""
    seeks: float
    opens: float
    bytes_read: float
    """0 if it is not counted."""
    held_bytes: int
    """The most that waited, in any turn."""
    frames: int
    """Measured in all turns."""
    cores: float
    """Processor time ÷ wall time: 1 is one core busy throughout."""
    others: float
    """The same of anything else that ran on these cores."""
    is_filled: bool
    """False if it was measured while its window was still filling."""

    @property
    def spread(self) -> float:
        """Fastest - slowest turn ÷ median. Above 0.05, rows that differ by less are alike."""
        return (self.fastest - self.slowest) / self.images_per_second


def rows_of(record: SamplingRecord) -> tuple[SamplingRow, ...]:
    """Return a row for each strategy that was run, the baseline first."""
    turns = {
        each.name: [turn for turn in record.turns if turn.strategy == each.name]
        for each in record.strategies
    }
    baseline = median(_rate(turn) for turn in turns["baseline"])
    return tuple(
        _row(each, turns[each.name], baseline) for each in record.strategies if turns[each.name]
    )


def ladder_of(rows: tuple[SamplingRow, ...]) -> list[SamplingRow]:
    """Return the rows of `LADDER` that were run, in ever more memory."""
    ran = {row.strategy.name: row for row in rows}
    return [ran[name] for name in LADDER if name in ran]


def saturation(rows: tuple[SamplingRow, ...]) -> SamplingRow | None:
    """Return where memory saturates: the least of it within 5 % of the best of `LADDER`.

    None if fewer than two of them were run.
    """
    ladder = ladder_of(rows)
    if len(ladder) < 2:
        return None
    best = max(row.images_per_second for row in ladder)
    return next(row for row in ladder if row.images_per_second >= ALIKE * best)


def _row(strategy: Strategy, turns: list[Turn], baseline: float) -> SamplingRow:
    rates = [_rate(turn) for turn in turns]
    return SamplingRow(
        strategy=strategy,
        images_per_second=median(rates),
        slowest=min(rates),
        fastest=max(rates),
        times=median(rates) / baseline,
        decoded=median(turn.decoded / turn.frames for turn in turns),
        cpu_ms=median(1e3 * turn.cpu_seconds / turn.frames for turn in turns),
        seeks=median(turn.seeks / turn.frames for turn in turns),
        opens=median(turn.opens / turn.frames for turn in turns),
        bytes_read=median(turn.bytes_read / turn.frames for turn in turns),
        held_bytes=max(turn.held_bytes for turn in turns),
        frames=sum(turn.frames for turn in turns),
        cores=median(turn.cpu_seconds / turn.seconds for turn in turns),
        others=median(turn.others_cpu_seconds / turn.seconds for turn in turns),
        is_filled=all(turn.is_filled for turn in turns),
    )


def _rate(turn: Turn) -> float:
    return turn.frames / turn.seconds
