"""Where a job is done soonest: by the queues before it, and by the rates that were measured."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from heapq import heapreplace
from typing import Final

FORGETS: Final = 0.97
"""Of what was measured, the share that counts still one job later, wherever that went: some thirty
jobs make a rate, and what is long ago gives way to a single new one."""
TRY_AGAIN: Final = 64
"""Jobs of a codec after which a way that had none of them is tried again, as its rate may have
changed. What is lost by it is at most one slow job in so many."""


@dataclass(frozen=True, kw_only=True)
class DeviceQueue:
    """What is under way on one way of decoding."""

    at_once: int
    """Jobs that it does at a time: the cores of the CPU, decoders on a GPU."""
    left: tuple[float, ...] = ()
    """Seconds of work that are left of each job that was sent there, estimated; the first sent
    first."""

    def done_in(self, seconds: float) -> float:
        """Return in how many seconds one more job would be done, that takes `seconds`."""
        free = [0.0] * self.at_once
        for each in self.left:
            heapreplace(free, free[0] + each)
        return free[0] + seconds


def soonest(queues: Mapping[str, DeviceQueue], seconds: Mapping[str, float]) -> str:
    """Return the way on which a job is done first; of equal ones the first that is named.

    Sending each job there, in the order they come, never ends later than sending all of them one
    way, by the same estimates: no job waits for more work than it would there.

    Args:
        queues: Each way that can do it, and what is under way there.
        seconds: What the job takes on each of them.
    """
    return min(queues, key=lambda way: queues[way].done_in(seconds[way]))


@dataclass(frozen=True)
class _Measured:
    """What jobs of one codec took on one way, older ones counting less."""

    seconds: float
    megapixels: float
    at: int
    """How many jobs of the codec had been measured then, this one among them."""


@dataclass(frozen=True, kw_only=True)
class ThroughputEstimates:
    """Seconds that a million pixels take, by way and codec: estimated, then measured."""

    start: Mapping[str, float]
    """Way → what holds until the first job of a codec was measured there."""
    measured: Mapping[tuple[str, str], _Measured] = field(default_factory=dict)
    jobs: Mapping[str, int] = field(default_factory=dict)
    """Codec → jobs that were measured, on all ways."""

    def seconds(self, way: str, codec: str, megapixels: float) -> float:
        """Return how long decoding so many pixels takes there, estimated."""
        found = self.measured.get((way, codec))
        rate = self.start[way] if found is None else found.seconds / found.megapixels
        return rate * megapixels

    def with_job(
        self, way: str, codec: str, megapixels: float, seconds: float
    ) -> "ThroughputEstimates":
        """Return the rates after a job that decoded so many pixels, more than none."""
        number = self.jobs.get(codec, 0) + 1
        before = self.measured.get((way, codec), _Measured(0.0, 0.0, 0))
        share = FORGETS ** (number - before.at)
        after = _Measured(
            before.seconds * share + seconds, before.megapixels * share + megapixels, number
        )
        return replace(
            self,
            measured={**self.measured, (way, codec): after},
            jobs={**self.jobs, codec: number},
        )

    def is_unknown(self, way: str, codec: str) -> bool:
        """Return whether a way is to be tried: it never was with this codec, or long ago."""
        found = self.measured.get((way, codec))
        return found is None or self.jobs[codec] - found.at >= TRY_AGAIN
