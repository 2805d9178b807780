"""What stages and the queues between them did, and the roles that stages play."""

from dataclasses import dataclass
from typing import Annotated, Final, Literal, Self

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt

from headrace.models.compute import Device
from headrace.profiling.provenance import Record, record_of
from headrace.runtime.flow_statistics import FlowStatistics
from headrace.runtime.queue import QueueStatistics
from headrace.runtime.stage import StageStatistics

Role = Literal["decode", "preprocess", "transfer", "model", "sink"]
"""What a stage does to a frame, whatever it is called."""


@dataclass(frozen=True)
class RoleWords:
    """How a role is called where people read."""

    phrase: str
    """In a sentence: "bound by ..."."""
    column: str
    """In the table of steps: `{column}_latency_ms`."""


ROLES: Final[dict[Role, RoleWords]] = {
    "decode": RoleWords("decoding", "read"),
    "preprocess": RoleWords("preprocessing", "prep"),
    "transfer": RoleWords("the transfer to the device", "transfer"),
    "model": RoleWords("the model", "exec"),
    "sink": RoleWords("drawing and writing", "sink"),
}
"""In the order the frames take."""


Share = Annotated[float, Field(ge=0, le=1)]


class StageRecord(Record):
    """What the workers of one stage did with their time. Seconds are summed over the workers."""

    name: str
    role: Role
    """What it does to a frame; several stages may play one role."""
    workers: PositiveInt
    items: NonNegativeInt
    """Batches it finished."""
    busy_seconds: NonNegativeFloat
    """At work. Near the run's length for one worker: this stage sets the pace."""
    starved_seconds: NonNegativeFloat
    """Waiting for input: what comes before is slower."""
    blocked_seconds: NonNegativeFloat
    """Waiting for room: what comes after is slower."""
    dropped: dict[str, NonNegativeInt] = Field(default_factory=dict)
    """Cause → items that ended here."""
    moved_bytes: NonNegativeInt = 0
    """Bytes it carried to another device; 0 for stages that carry none."""
    moved_to: Device | None = None
    """Which: `cpu` means down from a GPU. None where a stage carries none, and in records made
    before headrace kept it."""

    @classmethod
    def of(
        cls,
        found: StageStatistics,
        role: Role,
        *,
        moved_bytes: int = 0,
        moved_to: Device | None = None,
    ) -> Self:
        """The record of a stage that plays `role`."""
        return record_of(cls, found, role=role, moved_bytes=moved_bytes, moved_to=moved_to)


class ItemCounts(Record):
    """How items came in and ended: arrived = delivered + dropped + in flight."""

    arrived: NonNegativeInt
    delivered: NonNegativeInt
    dropped: NonNegativeInt
    """By cause in the record of the stage where they ended."""
    in_flight: NonNegativeInt
    """The session ended before they did."""

    @classmethod
    def of(cls, found: FlowStatistics) -> Self:
        """The record of what the runtime counted."""
        return record_of(cls, found, dropped=sum(found.dropped.values()))


class QueueRecord(Record):
    """One bounded queue between two stages."""

    name: str
    feeds: str | None
    """The stage that takes from it; None for the one behind the last stage."""
    capacity: PositiveInt
    """Batches it can hold."""
    puts: NonNegativeInt
    gets: NonNegativeInt
    elapsed_seconds: NonNegativeFloat
    """How long it was watched; `occupancy_mean` is over this time."""
    occupancy_mean: Share
    """Time-weighted share of the capacity in use. Near 1: what comes after is slower."""
    occupancy_max: Share
    starved_seconds: NonNegativeFloat
    """Consumers waited for input, summed over them."""
    blocked_seconds: NonNegativeFloat
    """Producers waited for room, summed over them."""
    wait_ms_p50: NonNegativeFloat | None
    """Half of the batches lay in the queue at most this long; None when none came out."""
    wait_ms_p95: NonNegativeFloat | None

    @classmethod
    def of(cls, found: QueueStatistics, *, feeds: str | None) -> Self:
        """The record of a queue in front of the stage `feeds`."""
        return record_of(
            cls,
            found,
            feeds=feeds,
            occupancy_mean=found.mean_occupancy,
            occupancy_max=found.max_occupancy,
            wait_ms_p50=found.wait_ms.p50 if found.wait_ms else None,
            wait_ms_p95=found.wait_ms.p95 if found.wait_ms else None,
        )
