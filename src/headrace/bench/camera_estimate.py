"""Run time estimate of a camera benchmark, from a short calibration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

CameraVariant = Literal["decode", "loader", "dataset", "wandering"]
"""Variants of camera loading. `decode`: PyAV loop over every file in threads; the upper bound.
`loader`: `CameraLoader`. `dataset`: DataLoader with a `CameraStreamSampler`. `wandering`:
DataLoader that cuts the moments of all clips into one equal part per slot, also inside clips, and
deals batches round-robin to ranks and workers."""


CameraSetup = tuple[CameraVariant, int, int]
"""Variant, number of ranks, workers per rank."""

_PASSED_ON: Final = 1.5
"""Time of decoding, collating and transfer in a DataLoader ÷ time of decoding:
benchmarks/bench_cameras.py."""
_IN_WORKERS: Final[tuple[CameraVariant, ...]] = ("dataset", "wandering")
"""Variants that start DataLoader workers."""


def worker_numbers(setups: Sequence[CameraSetup]) -> tuple[int, ...]:
    """Return the distinct numbers of DataLoader workers over all setups, ascending."""
    return tuple(sorted({workers for variant, _, workers in setups if variant in _IN_WORKERS}))


@dataclass(frozen=True, kw_only=True)
class CameraEstimate:
    """Estimated run times, from one rank with one worker."""

    start_seconds: float
    """Startup of a process, seconds."""
    worker_seconds: Mapping[int, float]
    """Number of DataLoader workers → seconds of their startup and shutdown."""
    picture_seconds: float
    """Decoding of one picture, seconds."""
    cores: int
    """Cores shared by ranks and workers."""
    gop: float
    """Mean pictures of a GOP: the max decoded per picture of `wandering`."""

    def seconds(self, setups: Sequence[CameraSetup], pictures: int) -> float:
        """Return the seconds of all setups with `pictures` each."""
        starting, per_picture = self._total_seconds(setups)
        return starting + pictures * per_picture

    def pictures(self, setups: Sequence[CameraSetup], seconds: float) -> int:
        """Return the pictures per setup for a total of `seconds`; 0 if startup alone exceeds it."""
        starting, per_picture = self._total_seconds(setups)
        return max(0, int((seconds - starting) / per_picture))

    def _total_seconds(self, setups: Sequence[CameraSetup]) -> tuple[float, float]:
        """Return the startup seconds of all setups, and their seconds per further picture."""
        starting = per_picture = 0.0
        for variant, ranks, workers in setups:
            processes, decoded = ranks * workers, 1.0
            starting += self.start_seconds * self._slowdown(ranks)
            if variant in _IN_WORKERS:
                of_one = self.worker_seconds[workers]
                starting += of_one * self._slowdown(processes) / self._slowdown(workers)
                decoded = _PASSED_ON
            if variant == "wandering":
                decoded *= max(1.0, min(processes, self.gop))
            per_picture += self.picture_seconds * decoded / min(self.cores, processes)
        return starting, per_picture

    def _slowdown(self, processes: int) -> float:
        """Return the slowdown of `processes` that share the cores."""
        return max(1.0, processes / self.cores)
