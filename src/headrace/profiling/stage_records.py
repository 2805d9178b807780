"""Records of stages, items and queues; the roles of stages."""

from dataclasses import dataclass
from typing import Annotated, Final, Literal, Self

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt

from headrace.models.compute import Device
from headrace.profiling.provenance import Record, record_of
from headrace.runtime.queue import QueueStatistics
from headrace.runtime.stage import FlowStatistics

Role = Literal["decode", "preprocess", "transfer", "model", "sink"]
"""Kind of work of a stage, independent of its name."""


@dataclass(frozen=True)
class RoleWords:
    """Names of a role in reports."""

    phrase: str
    """Name in a sentence: "bound by ..."."""
    column: str
    """Name in the table of steps: `{column}_latency_ms`."""


ROLES: Final[dict[Role, RoleWords]] = {
    "decode": RoleWords("decoding", "read"),
    "preprocess": RoleWords("preprocessing", "prep"),
    "transfer": RoleWords("the transfer to the device", "transfer"),
    "model": RoleWords("the model", "exec"),
    "sink": RoleWords("drawing and writing", "sink"),
}
"""In the order of the frames."""


Share = Annotated[float, Field(ge=0, le=1)]


class StageRecord(Record):
    """Time of one stage. Seconds are summed over its workers."""

    name: str
    role: Role
    """Several stages may have the same role."""
    workers: PositiveInt
    items: NonNegativeInt
    """Batches finished."""
    busy_seconds: NonNegativeFloat
    """Time at work. The stage is the bottleneck if this is near workers × length of the run."""
    starved_seconds: NonNegativeFloat
    """Wait for input: the stages before are slower."""
    blocked_seconds: NonNegativeFloat
    """Wait for room in the next queue: the stages after are slower."""
    cpu_seconds: NonNegativeFloat | None = None
    """CPU time of its threads, without threads of libraries; None: not measured."""
    core_wait_seconds: NonNegativeFloat | None = None
    """Time in which its threads could run and no core was free; None: not known."""
    dropped: dict[str, NonNegativeInt] = Field(default_factory=dict)
    """Cause → items that the stage dropped."""
    moved_bytes: NonNegativeInt = 0
    """Bytes copied to another device."""
    moved_to: Device | None = None
    """Target device; `cpu`: from a GPU to the host. None for stages without copies, and in older
    records."""


class ItemCounts(Record):
    """Counts of items: arrived = delivered + dropped + in flight."""

    arrived: NonNegativeInt
    delivered: NonNegativeInt
    dropped: NonNegativeInt
    """All dropped items; the stage records have the causes."""
    in_flight: NonNegativeInt
    """Items that were unfinished at the end of the session."""

    @classmethod
    def of(cls, statistics: FlowStatistics) -> Self:
        """Return the record of the counts of the runtime."""
        return record_of(cls, statistics, dropped=sum(statistics.dropped.values()))


class QueueRecord(Record):
    """One bounded queue between two stages."""

    name: str
    feeds: str | None
    """Stage that consumes; None for the queue after the last stage."""
    capacity: PositiveInt
    """Max depth, in batches."""
    puts: NonNegativeInt
    gets: NonNegativeInt
    elapsed_seconds: NonNegativeFloat
    """Time over which `occupancy_mean` is the mean."""
    occupancy_mean: Share
    """Time-weighted share of the capacity in use. Near 1: the stages after are slower."""
    occupancy_max: Share
    starved_seconds: NonNegativeFloat
    """Wait for input, summed over the consumers."""
    blocked_seconds: NonNegativeFloat
    """Wait for room, summed over the producers."""
    wait_ms_p50: NonNegativeFloat | None
    """Median time of a batch in the queue; None without batches."""
    wait_ms_p95: NonNegativeFloat | None

    @classmethod
    def of(cls, statistics: QueueStatistics, *, feeds: str | None) -> Self:
        """Return the record of the queue that the stage `feeds` consumes."""
        wait_ms = statistics.wait_ms
        return record_of(
            cls,
            statistics,
            feeds=feeds,
            occupancy_mean=statistics.mean_occupancy,
            occupancy_max=statistics.max_occupancy,
            wait_ms_p50=wait_ms.p50 if wait_ms else None,
            wait_ms_p95=wait_ms.p95 if wait_ms else None,
        )
