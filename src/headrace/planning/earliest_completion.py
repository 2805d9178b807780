"""Greedy list scheduling: each job goes to the device that completes it first."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from heapq import heapreplace
from typing import Final

FORGETS: Final = 0.97
"""Decay of a measurement's weight per later job of the codec, on any device: about thirty jobs
determine a rate."""
TRY_AGAIN: Final = 64
"""Jobs of a codec after which an unused device is tried again, because its rate may have changed.
This costs at most one slow job per 64."""


@dataclass(frozen=True, kw_only=True)
class DeviceQueue:
    """Jobs in work on one device."""

    parallel_jobs: int
    """Jobs that run at a time: cores of the CPU, decoders of a GPU."""
    remaining_seconds: tuple[float, ...] = ()
    """Estimated remaining seconds of each job, in the order they were sent."""

    def completion_seconds(self, seconds: float) -> float:
        """Return the seconds until one more job, which takes `seconds`, would be complete."""
        free = [0.0] * self.parallel_jobs
        for seconds_left in self.remaining_seconds:
            heapreplace(free, free[0] + seconds_left)
        return free[0] + seconds


def earliest_device(queues: Mapping[str, DeviceQueue], seconds: Mapping[str, float]) -> str:
    """Return the device that completes a job first; ties go to the first in `queues`.

    By the same estimates, jobs scheduled by this rule, in order, never end later than all jobs
    on one device: no job waits for more work than it would there.

    Args:
        queues: Device → its jobs in work, for each device that can run the job.
        seconds: Device → seconds that the job takes there.
    """
    return min(queues, key=lambda device: queues[device].completion_seconds(seconds[device]))


@dataclass(frozen=True)
class _Measured:
    """Weighted sums over the jobs of one codec on one device; older jobs weigh less."""

    seconds: float
    megapixels: float
    at: int
    """Jobs of the codec measured until its latest one, inclusive, on all devices."""


@dataclass(frozen=True, kw_only=True)
class ThroughputEstimates:
    """Seconds per million pixels, by device and codec: estimated first, then measured."""

    start: Mapping[str, float]
    """Device → estimate used until the first job of a codec is measured there."""
    measured: Mapping[tuple[str, str], _Measured] = field(default_factory=dict)
    jobs: Mapping[str, int] = field(default_factory=dict)
    """Codec → measured jobs, on all devices."""

    def seconds(self, device: str, codec: str, megapixels: float) -> float:
        """Return the estimated seconds to decode `megapixels` on a device."""
        known = self.measured.get((device, codec))
        rate = self.start[device] if known is None else known.seconds / known.megapixels
        return rate * megapixels

    def with_job(
        self, device: str, codec: str, megapixels: float, seconds: float
    ) -> "ThroughputEstimates":
        """Return the estimates after a job that decoded `megapixels`, above 0."""
        number = self.jobs.get(codec, 0) + 1
        before = self.measured.get((device, codec), _Measured(0.0, 0.0, 0))
        share = FORGETS ** (number - before.at)
        after = _Measured(
            before.seconds * share + seconds, before.megapixels * share + megapixels, number
        )
        return replace(
            self,
            measured={**self.measured, (device, codec): after},
            jobs={**self.jobs, codec: number},
        )

    def is_unknown(self, device: str, codec: str) -> bool:
        """Return whether a device has had no recent job of the codec."""
        known = self.measured.get((device, codec))
        return known is None or self.jobs[codec] - known.at >= TRY_AGAIN
