"""Costs: what decoding took for each frame that was delivered in a turn."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from headrace.decode.protocol import DecodeCounters
from headrace.measuring.interleaved import Spread, Turn, cores_of_others
from headrace.report.experiment import Column
from headrace.report.numbers import decimal


class CountedTurn(Turn):
    """A turn that delivered frames; counts are those of all processes."""

    frames: PositiveInt
    """Delivered while it was measured."""
    decoded: NonNegativeInt
    seeks: NonNegativeInt
    opens: NonNegativeInt
    bytes_read: NonNegativeInt
    """Bytes in the packets that were read; 0 if they are not counted."""


class EpochTurn(CountedTurn):
    """An epoch of a DataLoader, from asking for the first batch until the last was there."""

    first_batch_seconds: NonNegativeFloat
    """Until the first batch: workers start, and decode it."""
    memory_bytes: NonNegativeInt
    """Of all processes when the last batch was there; what they share is counted once."""


@dataclass(frozen=True, kw_only=True)
class CountedRow:
    """The turns of one contender; medians, each count per frame delivered."""

    rate: Spread
    """Frames per second."""
    cores: float
    """Processor time ÷ wall time: 1 is one core busy throughout."""
    others: float | None
    """The same of anything else that ran on these cores; None if that is unknown."""
    decoded: float
    """Near 1 is as cheap as reading in order, below 1 frames are used again."""
    seeks: float
    opens: float
    bytes_read: float


DECODED: Final[Column[CountedRow]] = Column("decoded", lambda row: decimal(row.decoded))
READ: Final[tuple[Column[CountedRow], ...]] = (
    Column("seeks", lambda row: decimal(row.seeks)),
    Column("opens", lambda row: decimal(row.opens)),
    Column("kB read", lambda row: decimal(row.bytes_read / 1e3) if row.bytes_read else "-"),
)


COLUMNS: Final = (DECODED, *READ)
READING: Final = (
    "CPU is processor time ÷ wall time, 100 % being one core. Decoded, seeks, opens and kB read "
    "are for each frame delivered, by all processes."
)


def rate_columns(unit: str) -> tuple[Column[CountedRow], ...]:
    """Return the columns of the rate: its median under `unit`, its least and its most."""
    return (
        Column(unit, lambda row: decimal(row.rate.median)),
        Column("slowest", lambda row: decimal(row.rate.lowest)),
        Column("fastest", lambda row: decimal(row.rate.highest)),
    )


def counted_turn(turn: Turn, frames: int, spent: DecodeCounters) -> dict[str, Any]:
    """Return the fields of a `CountedTurn`, for one that has more of them."""
    return {
        **turn.model_dump(),
        "frames": frames,
        "decoded": spent.frames_decoded,
        "seeks": spent.seeks,
        "opens": spent.opens,
        "bytes_read": spent.bytes_read,
    }


def counted_row(turns: Sequence[CountedTurn]) -> dict[str, Any]:
    """Return the fields of a `CountedRow`, for one that has more of them."""
    costs = ("decoded", "seeks", "opens", "bytes_read")
    return {
        "rate": Spread.of([turn.frames / turn.seconds for turn in turns]),
        "cores": median(turn.cpu_seconds / turn.seconds for turn in turns),
        "others": cores_of_others(turns),
        **{name: median(getattr(turn, name) / turn.frames for turn in turns) for name in costs},
    }
