"""Greedy list scheduling: each job runs on the device that completes it first."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from heapq import heapreplace
from typing import Final

FORGETS: Final = 0.97
"""Decay factor of a measurement's weight per later job of the codec, on any device; a rate is
determined by about thirty jobs."""
TRY_AGAIN: Final = 64
"""Jobs of a codec after which an unused device is tried again, because its rate may have changed;
costs at most one slow job per 64."""


@dataclass(frozen=True, kw_only=True)
class DeviceQueue:
    """Running and queued jobs of one device."""

    parallel_jobs: int
    """Number of jobs that run in parallel: cores of the CPU, decoders of a GPU."""
    remaining_seconds: tuple[float, ...] = ()
    """Estimated remaining seconds of each job, in the order of submission."""

    def completion_seconds(self, seconds: float) -> float:
        """Return the seconds until one more job, which takes `seconds`, would complete."""
        free = [0.0] * self.parallel_jobs
        for seconds_left in self.remaining_seconds:
            heapreplace(free, free[0] + seconds_left)
        return free[0] + seconds


def earliest_device(queues: Mapping[str, DeviceQueue], seconds: Mapping[str, float]) -> str:
    """Return the device that completes a job first; ties go to the first in `queues`.

    If the estimates are right, jobs scheduled by this rule, in order, never end later than with all
    jobs on one device: no job waits for more work than it would there.

    Args:
        queues: Device → its jobs, for each device that can run the job.
        seconds: Device → duration of the job there, in seconds.
    """
    return min(queues, key=lambda device: queues[device].completion_seconds(seconds[device]))


@dataclass(frozen=True)
class _Measured:
    """Weighted sums over the jobs of one codec on one device; older jobs weigh less."""

    seconds: float
    megapixels: float
    last_job: int
    """Number of its latest job among all jobs of the codec on all devices, from 1."""


@dataclass(frozen=True, kw_only=True)
class ThroughputEstimates:
    """Seconds per million pixels, by device and codec: assumed at first, then measured."""

    start: Mapping[str, float]
    """Device → assumed rate, until a job of the codec is measured there."""
    measured: Mapping[tuple[str, str], _Measured] = field(default_factory=dict)
    jobs: Mapping[str, int] = field(default_factory=dict)
    """Codec → number of measured jobs on all devices."""

    def seconds(self, device: str, codec: str, megapixels: float) -> float:
        """Return the estimated seconds to decode `megapixels` on a device."""
        sums = self.measured.get((device, codec))
        rate = self.start[device] if sums is None else sums.seconds / sums.megapixels
        return rate * megapixels

    def with_job(
        self, device: str, codec: str, megapixels: float, seconds: float
    ) -> "ThroughputEstimates":
        """Return the estimates after a job that decoded `megapixels`, above 0."""
        number = self.jobs.get(codec, 0) + 1
        before = self.measured.get((device, codec), _Measured(0.0, 0.0, 0))
        decay = FORGETS ** (number - before.last_job)
        after = _Measured(
            before.seconds * decay + seconds, before.megapixels * decay + megapixels, number
        )
        return replace(
            self,
            measured={**self.measured, (device, codec): after},
            jobs={**self.jobs, codec: number},
        )

    def is_unknown(self, device: str, codec: str) -> bool:
        """Return whether a device has had no recent job of the codec."""
        sums = self.measured.get((device, codec))
        return sums is None or self.jobs[codec] - sums.last_job >= TRY_AGAIN
