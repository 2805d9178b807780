"""Steady-state timing: endless batches, measured after a warm-up."""

from collections.abc import Generator
from contextlib import closing
from typing import Final, Protocol

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from headrace.decode.protocol import DecodeCounters
from headrace.measuring.decode_counts import CountedRepetition, count_fields
from headrace.measuring.interleaved import Stopwatch
from headrace.runtime.clock import Clock

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
