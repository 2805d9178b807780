"""Decode counts per delivered frame."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from headrace.decode.protocol import DecodeCounters
from headrace.measuring.interleaved import Repetition, RepetitionRow, Timed
from headrace.profiling.number_format import TOO_SMALL, decimal
from headrace.report.benchmark_page import Column


class CountedRepetition(Repetition):
    """Repetition that delivered frames; counts cover all processes."""

    frames: PositiveInt
    """Frames delivered while measured."""
    decoded: NonNegativeInt
    seeks: NonNegativeInt
    opens: NonNegativeInt
    bytes_read: NonNegativeInt
    """Bytes of the packets read; 0: not counted."""

    @property
    def rate(self) -> float:
        """Frames per second."""
        return self.frames / self.seconds


class EpochRepetition(CountedRepetition):
    """Epoch of a DataLoader, from the request of the first batch until the arrival of the last."""

    first_batch_seconds: NonNegativeFloat
    """Time until the first batch, worker startup included."""
    memory_bytes: NonNegativeInt
    """Memory of all processes at the last batch; shared memory is counted once."""


Counting = TypeVar("Counting", bound=CountedRepetition)


@dataclass(frozen=True, kw_only=True)
class CountedRow(RepetitionRow[Counting]):
    """Repetitions of one variant, and costs per delivered frame."""

    @property
    def decoded(self) -> float:
        """Frames decoded ÷ delivered; 1 is the cost of reading in order, less means reuse."""
        return self.per_frame("decoded")

    def per_frame(self, count: str) -> float:
        """Return the median of a count per frame."""
        return self.median(lambda repetition: getattr(repetition, count) / repetition.frames)


DECODED: Final[Column[CountedRow[Any]]] = Column("decoded", lambda row: decimal(row.decoded))
READ: Final[tuple[Column[CountedRow[Any]], ...]] = (
    Column("seeks", lambda row: decimal(row.per_frame("seeks"))),
    Column("opens", lambda row: decimal(row.per_frame("opens"))),
    Column("kB read", lambda row: decimal(row.per_frame("bytes_read") / 1e3 or None)),
)
COLUMNS: Final = (DECODED, *READ)
READING: Final = (
    "CPU is CPU time ÷ wall time; 100 % is one core. Decoded, seeks, opens and kB read are per "
    "delivered frame, over all processes."
)


def rate_columns(unit: str) -> tuple[Column[Timed], ...]:
    """Return the columns of the rate: median under `unit`, slowest and fastest repetition.

    A row without repetitions has no values.
    """
    return (
        Column(unit, lambda row: decimal(row.rate.median if row.repetitions else None)),
        Column("slowest", lambda row: decimal(row.rate.lowest if row.repetitions else None)),
        Column("fastest", lambda row: decimal(row.rate.highest if row.repetitions else None)),
    )


def median_column(
    head: str, figure: Callable[[Any], float], shown: Callable[[float], str] = decimal
) -> Column[RepetitionRow[Any]]:
    """Return the column of the median of a figure, formatted by `shown`."""
    return Column(head, lambda row: shown(row.median(figure)))


def p95_column(figure: Callable[[Any], float | None]) -> Column[Any]:
    """Return the column of a p95 in milliseconds; too few numbers have none."""
    return Column("p95 ms", lambda row: decimal(figure(row), TOO_SMALL))


def count_fields(repetition: Repetition, frames: int, counters: DecodeCounters) -> dict[str, Any]:
    """Return the fields of a `CountedRepetition`, for its subclasses."""
    return {
        **repetition.model_dump(),
        "frames": frames,
        "decoded": counters.frames_decoded,
        "seeks": counters.seeks,
        "opens": counters.opens,
        "bytes_read": counters.bytes_read,
    }
