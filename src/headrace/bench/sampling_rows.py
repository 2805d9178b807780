"""Rows of `bench sampling`: the turns of each strategy."""

from dataclasses import dataclass
from statistics import median

from headrace.bench.sampling_labels import label
from headrace.bench.sampling_record import LADDER, SamplingRecord, Strategy
from headrace.bench.saturation import Saturation
from headrace.measuring.decode_counts import CountedRow, counted_row
from headrace.measuring.interleaved import grouped


@dataclass(frozen=True, kw_only=True)
class SamplingRow(CountedRow):
    """The turns of one strategy; medians, each count per frame delivered."""

    strategy: Strategy
    label: str
    times: float
    """Images per second ÷ those of the baseline."""
    cpu_ms: float
    """Processor time of all processes."""
    held_bytes: int
    """The most that waited, in any turn."""
    frames: int
    """Measured in all turns."""
    is_filled: bool
    """False if it was measured while its window was still filling."""


def rows_of(record: SamplingRecord) -> tuple[SamplingRow, ...]:
    """Return a row for each strategy that was run, the baseline first."""
    groups = grouped(record.turns, lambda turn: turn.strategy)
    baseline = median(turn.frames / turn.seconds for turn in groups["baseline"])
    rows = []
    for strategy in record.strategies:
        if turns := groups.get(strategy.name):
            medians = counted_row(turns)
            row = SamplingRow(
                **medians,
                strategy=strategy,
                label=label(strategy.name, record.memory_budget, record.burst),
                times=medians["rate"].median / baseline,
                cpu_ms=median(1e3 * turn.cpu_seconds / turn.frames for turn in turns),
                held_bytes=max(turn.held_bytes for turn in turns),
                frames=sum(turn.frames for turn in turns),
                is_filled=all(turn.is_filled for turn in turns),
            )
            rows.append(row)
    return tuple(rows)


def ladder_of(rows: tuple[SamplingRow, ...]) -> Saturation[SamplingRow] | None:
    """Return the rows of `LADDER` that were run, in ever more memory; None of fewer than two."""
    ran = {row.strategy.name: row for row in rows}
    ladder = [ran[name] for name in LADDER if name in ran]
    if len(ladder) < 2:
        return None
    return Saturation(rows=ladder, unit="images/s", label=lambda row: row.label, subject="memory")
