"""An engine at work, and what engines cost, as a loader counts it."""

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from headrace.decode.protocol import DecodeCounters
from headrace.runtime.room import Room

Step = TypeVar("Step")
"""What an engine makes of one step, before it is a batch."""


class DecodingEngine(Protocol):
    """What decodes, as the loader counts it."""

    room: Room

    @property
    def counters(self) -> DecodeCounters:
        """What decoding cost so far, over all workers."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Running(Generic[Step]):
    """An engine at work. Its threads end when `steps` is closed, or forgotten."""

    engine: DecodingEngine
    steps: Generator[Step, None, None]


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What decoding cost, over all engines so far."""

    decoding: DecodeCounters = field(default_factory=DecodeCounters)
    blocked_seconds: float = 0.0
    most_taken: int = 0
    """Places of `Room` that were in use at a time."""

    def with_engine(self, engine: DecodingEngine) -> "Spent":
        """Return this and what one more engine cost."""
        return Spent(
            decoding=self.decoding + engine.counters,
            blocked_seconds=self.blocked_seconds + engine.room.blocked_seconds,
            most_taken=max(self.most_taken, engine.room.most_taken),
        )
