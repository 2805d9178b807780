"""Costs: what decoding took for each frame that was delivered in a turn."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from headrace.decode.protocol import DecodeCounters
from headrace.measuring.interleaved import Repetition, RepetitionRow, Timed
from headrace.profiling.number_format import decimal
from headrace.report.benchmark_page import Column


class CountedRepetition(Repetition):
    """A turn that delivered frames; counts are those of all processes."""

    frames: PositiveInt
    """Delivered while it was measured."""
    decoded: NonNegativeInt
    seeks: NonNegativeInt
    opens: NonNegativeInt
    bytes_read: NonNegativeInt
    """Bytes in the packets that were read; 0 if they are not counted."""

    @property
    def rate(self) -> float:
        """Frames per second."""
        return self.frames / self.seconds


class EpochRepetition(CountedRepetition):
    """An epoch of a DataLoader, from asking for the first batch until the last was there."""

    first_batch_seconds: NonNegativeFloat
    """Until the first batch: workers start, and decode it."""
    memory_bytes: NonNegativeInt
    """Of all processes when the last batch was there; what they share is counted once."""


Counting = TypeVar("Counting", bound=CountedRepetition)


@dataclass(frozen=True, kw_only=True)
class CountedRow(RepetitionRow[Counting]):
    """The turns of one contender, and what a frame that was delivered cost."""

    @property
    def decoded(self) -> float:
        """Near 1 is as cheap as reading in order, below 1 frames are used again."""
        return self.per_frame("decoded")

    def per_frame(self, count: str) -> float:
        """Return a count of the turns per frame, the median."""
        return self.median(lambda turn: getattr(turn, count) / turn.frames)


def _read(row: CountedRow[Any]) -> str:
    read = row.per_frame("bytes_read")
    return decimal(read / 1e3) if read else "-"


DECODED: Final[Column[CountedRow[Any]]] = Column("decoded", lambda row: decimal(row.decoded))
READ: Final[tuple[Column[CountedRow[Any]], ...]] = (
    Column("seeks", lambda row: decimal(row.per_frame("seeks"))),
    Column("opens", lambda row: decimal(row.per_frame("opens"))),
    Column("kB read", _read),
)
COLUMNS: Final = (DECODED, *READ)
READING: Final = (
    "CPU is processor time ÷ wall time, 100 % being one core. Decoded, seeks, opens and kB read "
    "are for each frame delivered, by all processes."
)


def rate_columns(unit: str) -> tuple[Column[Timed], ...]:
    """Return the columns of the rate: its median under `unit`, its least and its most."""
    return (
        Column(unit, lambda row: decimal(row.rate.median)),
        Column("slowest", lambda row: decimal(row.rate.lowest)),
        Column("fastest", lambda row: decimal(row.rate.highest)),
    )


def median_column(
    head: str, figure: Callable[[Any], float], shown: Callable[[float], str] = decimal
) -> Column[RepetitionRow[Any]]:
    """Return the column of a figure of turns: its median, as `shown` writes it."""
    return Column(head, lambda row: shown(row.median(figure)))


def count_fields(turn: Repetition, frames: int, spent: DecodeCounters) -> dict[str, Any]:
    """Return the fields of a `CountedRepetition`, for one that has more of them."""
    return {
        **turn.model_dump(),
        "frames": frames,
        "decoded": spent.frames_decoded,
        "seeks": spent.seeks,
        "opens": spent.opens,
        "bytes_read": spent.bytes_read,
    }
