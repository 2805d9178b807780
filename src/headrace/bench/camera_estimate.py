"""How long repetitions of a camera benchmark take, as a short one tells."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

CameraVariant = Literal["decode", "loader", "dataset", "wandering"]
"""`decode`: a bare PyAV loop over every file, in threads, and nothing else: what can be reached.
`loader`: a `CameraLoader`. `dataset`: a DataLoader with a `CameraStreamSampler`. `wandering`: a
DataLoader with the schedule of the example that this replaces: the moments of all clips, one after
the other, are cut into as many equal parts as a batch has slots, whatever clips that cuts, and
batches are dealt to ranks, and by the DataLoader to workers, in turn."""


CameraSetup = tuple[CameraVariant, int, int]
"""A way, the number of ranks, and of workers of each."""

_PASSED_ON: Final = 1.5
"""What collating and passing on in a DataLoader make of decoding: benchmarks/bench_cameras.py."""
_IN_WORKERS: Final[tuple[CameraVariant, ...]] = ("dataset", "wandering")
"""Ways that start workers of a DataLoader."""


def worker_numbers(turns: Sequence[CameraSetup]) -> tuple[int, ...]:
    """Return the numbers of workers that any of the turns starts in a DataLoader, ascending."""
    return tuple(sorted({workers for way, _, workers in turns if way in _IN_WORKERS}))


@dataclass(frozen=True, kw_only=True)
class CameraEstimate:
    """What one rank with one worker took to decode some pictures. All that follows is estimated."""

    start_seconds: float
    """Until the process could begin."""
    worker_seconds: Mapping[int, float]
    """Number of workers that a DataLoader starts → until they are there, and their end."""
    picture_seconds: float
    """For each picture."""
    cores: int
    """That ranks and workers share."""
    gop: float
    """Pictures of a GOP, the mean: where slots wander, so many at most are decoded for one."""

    def seconds(self, turns: Sequence[CameraSetup], pictures: int) -> float:
        """Return how long turns take, each of so many pictures."""
        starting, each = self._sums(turns)
        return starting + pictures * each

    def pictures(self, turns: Sequence[CameraSetup], seconds: float) -> int:
        """Return how many pictures each turn may read for all to take so long; 0 if none."""
        starting, each = self._sums(turns)
        return max(0, int((seconds - starting) / each))

    def _sums(self, turns: Sequence[CameraSetup]) -> tuple[float, float]:
        """Return the seconds of all turns together: to start them, and for one picture more."""
        starting = each = 0.0
        for way, ranks, workers in turns:
            processes, decoded = ranks * workers, 1.0
            starting += self.start_seconds * self._shared(ranks)
            if way in _IN_WORKERS:
                of_one = self.worker_seconds[workers]
                starting += of_one * self._shared(processes) / self._shared(workers)
                decoded = _PASSED_ON
            if way == "wandering":
                decoded *= max(1.0, min(processes, self.gop))
            each += self.picture_seconds * decoded / min(self.cores, processes)
        return starting, each

    def _shared(self, processes: int) -> float:
        """Return how many times as long processes take beside each other as one alone."""
        return max(1.0, processes / self.cores)
