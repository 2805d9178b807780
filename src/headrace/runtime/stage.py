"""What a pipeline is made of: its kinds of stages, and what each cost."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from headrace.errors import ConfigError
from headrace.runtime.grouping import Grouping
from headrace.runtime.item import DroppedItem
from headrace.runtime.synchronization import CapacityLimiter

In = TypeVar("In")
Out = TypeVar("Out")


@dataclass(frozen=True, kw_only=True)
class Stage(Generic[In, Out]):
    """A named step of a pipeline: one item in, one out, in the order of the source."""

    name: str
    function: Callable[[In], Out | DroppedItem]
    """Runs in the stage's own threads; with several workers it must be thread-safe. Never called
    with `DroppedItem`: what ended before passes by."""
    workers: int = 1
    """Threads that run it. More than 1 never changes the order: a result waits for its turn."""

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ConfigError(f"stage {self.name!r} needs workers >= 1, got {self.workers}")


@dataclass(frozen=True, kw_only=True)
class Aggregate(Generic[In, Out]):
    """A step with many items in, one or none out, such as clips or batches; one thread runs it.

    What comes out is numbered anew, and its spans cover those of its parts. What is held when the
    source ends, or an item fails, is flushed as the grouping says.
    """

    name: str
    grouping: Callable[[], Grouping[In]]
    """Makes the one that decides which items go together, new for each run:
    `lambda: Windows(length=16)`."""
    function: Callable[[list[In]], Out | DroppedItem]
    """What becomes of the values of a group, in their order."""
    waits: bool = True
    """False: what is held is flushed as soon as no more items are there to take, so that a batch is
    what came while the one before was worked on, and nothing waits for it to be full."""
    sheds: bool = False
    """Whether what ends here never waits for room: so it keeps taking what comes, and drops it,
    while what comes after it is stuck."""
    room: CapacityLimiter | None = None
    """Of one run: a group takes a place before its first item is taken, so that what comes
    meanwhile stays in the queue before, and may be dropped there. Whoever gets the group gives the
    place back; of a group that this stage drops the next has it."""

    workers = 1


@dataclass(frozen=True, kw_only=True)
class Disaggregate(Generic[In, Out]):
    """A step with one item in, any number out, numbered anew; one thread runs it.

    An item that nothing comes of ends as dropped, with the cause "empty".
    """

    name: str
    function: Callable[[In], Iterable[Out | DroppedItem]]
    """Best a generator: each value is handed on before the next is asked for."""

    workers = 1


AnyStage = Stage[In, Out] | Aggregate[In, Out] | Disaggregate[In, Out]


@dataclass(frozen=True, kw_only=True, slots=True)
class StageStatistics:
    """What the threads of one stage did so far, summed over its workers.

    busy, starved and blocked add up to the life of the workers: the stage with the largest share
    of busy is the one to speed up, or to give more workers.
    """

    name: str
    workers: int
    items: int
    """Items it finished and handed on."""
    busy_seconds: float
    """It worked on items it finished; for the source: it produced them, waits left out."""
    starved_seconds: float
    """It waited for input. The large figure: an earlier stage is the slow one. For the source: it
    waited with its `Waiter`, for the pace or for what it reads from."""
    blocked_seconds: float
    """It waited for room at its output, or for its turn. Large: a later stage is the slow one."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Cause -> items that ended here, or in the queue behind it. In items of the source: a clip
    counts as the frames that end with it."""
