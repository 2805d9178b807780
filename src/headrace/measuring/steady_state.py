"""Steady: batches without end, measured for a while after they have warmed up."""

from collections.abc import Generator
from contextlib import closing
from typing import Final, Protocol

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from headrace.decode.protocol import DecodeCounters
from headrace.measuring.decode_counts import CountedRepetition, count_fields
from headrace.measuring.interleaved import Stopwatch
from headrace.runtime.clock import Clock

FILLING: Final = 6
"""Warming up may take so many times as long as measuring, and no longer: the first requests of a
window meet every GOP for the first time, at the cost of naive access."""


class Delivery(Protocol):
    """Batches without end, and what they cost."""

    warm_up: int
    """Frames to be delivered before it is steady; the first batch never counts."""
    at_a_time: int
    """Batches that get ready together: it is measured over a multiple of them."""

    def batches(self) -> Generator[int, None, None]:
        """Yield the number of frames of each batch; ends all it started when closed."""
        ...

    @property
    def counters(self) -> DecodeCounters:
        """What the batches so far cost."""
        ...

    @property
    def held_bytes(self) -> int:
        """The most that waited so far."""
        ...


class DeliveryRepetition(CountedRepetition):
    """One delivery measured once, whole batches, after it had warmed up."""

    strategy: str
    held_bytes: NonNegativeInt
    """The most that waited, as frames; of a DataLoader, what its workers make ahead."""
    warm_up_frames: PositiveInt
    """Delivered before, and not counted."""
    warm_up_seconds: NonNegativeFloat
    is_filled: bool
    """False if it had not looked ahead as far as it may; then it was slower than it will be."""


def time_delivery(
    strategy: str, delivery: Delivery, seconds: float, clock: Clock
) -> DeliveryRepetition:
    """Let `delivery` warm up, then measure it for `seconds` and to the end of a batch.

    Raises:
        MediaError, StageError: a frame cannot be decoded, or a worker fails.
    """
    with closing(delivery.batches()) as batches:
        began_ns = clock.now_ns()
        warm = next(batches)
        while warm < delivery.warm_up and clock.now_ns() - began_ns < FILLING * seconds * 1e9:
            warm += next(batches)
        warm_up_seconds = (clock.now_ns() - began_ns) / 1e9
        before, watch = delivery.counters, Stopwatch(clock)
        frames = number = 0
        elapsed = 0.0
        while elapsed < seconds or number % delivery.at_a_time:
            frames += next(batches)
            number += 1
            elapsed = watch.seconds
        spent = delivery.counters - before
        turn = watch.turn(elapsed)
    return DeliveryRepetition(
        **count_fields(turn, frames, spent),
        strategy=strategy,
        held_bytes=delivery.held_bytes,
        warm_up_frames=warm,
        warm_up_seconds=warm_up_seconds,
        is_filled=warm >= delivery.warm_up,
    )
