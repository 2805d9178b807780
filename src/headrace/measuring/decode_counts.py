"""Decode counts per delivered frame, of epochs and of deliveries in steady state."""

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from headrace.decode.protocol import DecodeCounters
from headrace.measuring.interleaved import Repetition, RepetitionRow, Stopwatch, Timed
from headrace.profiling.number_format import TOO_SMALL, decimal
from headrace.report.benchmark_page import Column
from headrace.runtime.clock import Clock


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


FILLING: Final = 6
"""Max warm-up time ÷ measured time. The first requests of a window cost as much as naive access:
every GOP is decoded for the first time."""


class Delivery(Protocol):
    """Endless batches with decode counters."""

    at_a_time: int
    """Batches that become ready together; the measurement covers a multiple of them."""

    @property
    def warm_up(self) -> int:
        """Frames to deliver before steady state; the first batch never counts. May grow."""
        ...

    def batches(self) -> Generator[int, None, None]:
        """Yield the number of frames of each batch; closing ends all threads and processes."""
        ...

    @property
    def counters(self) -> DecodeCounters:
        """Decode counters of the batches so far."""
        ...

    @property
    def held_bytes(self) -> int:
        """Max bytes buffered so far."""
        ...


class DeliveryRepetition(CountedRepetition):
    """One repetition of a delivery: full batches after the warm-up."""

    strategy: str
    held_bytes: NonNegativeInt
    """Max bytes of buffered frames, or of a DataLoader's prefetched batches."""
    warm_up_frames: PositiveInt
    """Frames delivered during the warm-up; not counted."""
    warm_up_seconds: NonNegativeFloat
    is_filled: bool
    """False if the lookahead was not full, so the rate is too low."""


def time_delivery(
    strategy: str, delivery: Delivery, seconds: float, clock: Clock
) -> DeliveryRepetition:
    """Warm up `delivery`, then measure it for `seconds`, until the end of a batch.

    Raises:
        MediaError, StageError: a frame cannot be decoded, or a worker fails.
    """
    with closing(delivery.batches()) as batches:
        start_ns = clock.now_ns()
        warm = next(batches)
        while warm < delivery.warm_up and clock.now_ns() - start_ns < FILLING * seconds * 1e9:
            warm += next(batches)
        warm_up_seconds = (clock.now_ns() - start_ns) / 1e9
        before, watch = delivery.counters, Stopwatch(clock)
        frames = num_batches = 0
        elapsed = 0.0
        while elapsed < seconds or num_batches % delivery.at_a_time:
            frames += next(batches)
            num_batches += 1
            elapsed = watch.seconds
        counters = delivery.counters - before
        repetition = watch.stop(elapsed)
    return DeliveryRepetition(
        **count_fields(repetition, frames, counters),
        strategy=strategy,
        held_bytes=delivery.held_bytes,
        warm_up_frames=warm,
        warm_up_seconds=warm_up_seconds,
        is_filled=warm >= delivery.warm_up,
    )
