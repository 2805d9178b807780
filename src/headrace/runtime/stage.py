"""What a pipeline is made of: stages, the items that travel through them, and what it cost."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from headrace.errors import ConfigError

In = TypeVar("In")
Out = TypeVar("Out")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Stage(Generic[In, Out]):
    """A named step of a pipeline: one item in, one out, in the order of the source."""

    name: str
    function: Callable[[In], Out]
    """Runs in the stage's own threads; with several workers it must be thread-safe."""
    workers: int = 1
    """Threads that run it. More than 1 never changes the order: a result waits for its turn."""

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ConfigError(f"stage {self.name!r} needs workers >= 1, got {self.workers}")


@dataclass(frozen=True, slots=True)
class Span:
    """When a stage worked on an item, in nanoseconds of the pipeline's clock: [start, end)."""

    stage: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Item(Generic[T]):
    """A value on its way through a pipeline, and when each stage worked on it."""

    index: int
    """Its place in the order of the source, from 0."""
    value: T
    spans: tuple[Span, ...]
    """One per stage so far, the source first. From the end of one span to the start of the next
    the item waited: for its turn, for room, and in the queue."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StageStatistics:
    """What the threads of one stage did so far, summed over its workers.

    busy, starved and blocked add up to the life of the workers: the stage with the largest share
    of busy is the one to speed up, or to give more workers.
    """

    name: str
    workers: int
    items: int
    """Items it finished."""
    busy_seconds: float
    """It worked on items it finished; for the source: it produced them."""
    starved_seconds: float
    """It waited for input. The large figure: an earlier stage is the slow one. 0 for the source."""
    blocked_seconds: float
    """It waited for room at its output, or for its turn. Large: a later stage is the slow one."""
