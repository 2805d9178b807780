"""What would bound a run whose stages overlap, from what each of them takes alone. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from headrace.bench.stages_record import StagesRow
from headrace.profiling.stages import Role


@dataclass(frozen=True, kw_only=True)
class Bound:
    """What would set the pace of a run in which every stage works at the same time.

    A run decodes with a thread for each core and has one thread for each other stage, so at best
    a frame takes as long as the slowest of them, or as all cores together need for it.
    """

    role: Role
    """The stage that would set it; of the cores, the one that takes most of them."""
    is_cores: bool
    """Whether the cores would set it, all of them busy, before any stage alone."""
    ms: float
    """Milliseconds per frame that are left, at best."""
    most: float
    """So many times as fast it would be if that stage took nothing at all."""

    @classmethod
    def of(cls, rows: Sequence[StagesRow], cores: int) -> Self:
        """Return what the rows of the stages tell, for so many usable cores."""
        alone, together = _slowest(rows, cores), _together(rows, cores)
        is_cores = together >= _ms(alone, cores)
        culprit = max(rows, key=lambda row: row.cpu_ms) if is_cores else alone
        ms, rest = _least_ms(rows, cores), [row for row in rows if row is not culprit]
        return cls(role=culprit.role, is_cores=is_cores, ms=ms, most=ms / _least_ms(rest, cores))

    @property
    def rate(self) -> float:
        """Frames per second, at best."""
        return 1e3 / self.ms


def _least_ms(rows: Sequence[StagesRow], cores: int) -> float:
    return max(_together(rows, cores), _ms(_slowest(rows, cores), cores))


def _slowest(rows: Sequence[StagesRow], cores: int) -> StagesRow:
    return max(rows, key=lambda row: _ms(row, cores))


def _ms(row: StagesRow, cores: int) -> float:
    return row.ms / cores if row.role == "decode" else row.ms


def _together(rows: Sequence[StagesRow], cores: int) -> float:
    return sum(row.cpu_ms for row in rows) / cores
