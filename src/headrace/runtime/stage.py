"""Stages of a pipeline as values, one to one and many to one; and their counters."""

from collections.abc import Callable, Mapping
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
    """Stage with one output for each item, in the order of the source."""

    name: str
    function: Callable[[In], Out | DroppedItem]
    """Runs in the stage's own threads; with several workers it must be thread-safe. Never called
    with `DroppedItem`: items that were dropped before pass by."""
    workers: int = 1
    """Threads that run it. More than 1 never change the order: a result waits for those before."""

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ConfigError(f"stage {self.name!r} needs workers >= 1, got {self.workers}")


@dataclass(frozen=True, kw_only=True)
class Aggregate(Generic[In, Out]):
    """Stage with one output for each group of items, such as a clip or a batch; one thread.

    Outputs are numbered anew, and their spans cover those of their parts. An incomplete group is
    flushed by its grouping when the source ends, or an item fails.
    """

    name: str
    grouping: Callable[[], Grouping[In]]
    """Returns a new grouping for each run: `lambda: SlidingWindows(length=16)`."""
    function: Callable[[list[In]], Out | DroppedItem]
    """Called with the values of a group, in their order."""
    waits: bool = True
    """Whether an incomplete group waits for further items. False: it is flushed as soon as the
    input is empty, so a batch is what arrived while the one before was worked on."""
    drops_freely: bool = False
    """Whether items dropped here never wait for room: the stage goes on taking and dropping items
    while the stages behind it are blocked."""
    limiter: CapacityLimiter | None = None
    """A limiter for one run: a group acquires a permit before its first item is taken, so that
    items that arrive meanwhile stay in the queue before, and may be dropped there. The consumer of
    the group releases it; the permit of a group that is dropped here goes to the next group."""

    workers = 1


AnyStage = Stage[In, Out] | Aggregate[In, Out]


@dataclass(frozen=True, kw_only=True, slots=True)
class StageStatistics:
    """Counters of one stage so far, summed over its workers.

    busy, starved and blocked add up to the life of the workers: the stage with the largest share
    of busy is the one to speed up, or to give more workers.
    """

    name: str
    workers: int
    items: int
    """Items it finished and passed on."""
    busy_seconds: float
    """It worked on items it finished; for the source: it produced them, without its waits."""
    starved_seconds: float
    """It waited for input. The largest figure: an earlier stage is the slow one. For the source: it
    waited with its `Waiter`, for its pace or for what it reads from."""
    blocked_seconds: float
    """It waited for room at its output, or for its place in the order. Large: a later stage is the
    slow one."""
    cpu_seconds: float | None = None
    """CPU time of its threads, those of libraries not included; None: they have not all ended."""
    core_wait_seconds: float | None = None
    """Its threads could run and no core was free; None: they have not all ended, or it is not known
    on this system."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Cause -> items that ended here, or in the queue behind it. In items of the source: a clip
    counts as the frames that end with it."""
