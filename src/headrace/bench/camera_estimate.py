"""How long repetitions of a camera benchmark take, as a short one tells."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

CameraWay = Literal["decode", "loader", "dataset", "wandering"]
"""`decode`: a bare PyAV loop over every file, in threads, and nothing else: what can be reached.
`loader`: a `CameraLoader`. `dataset`: a DataLoader with a `CameraStreamSampler`. `wandering`: a
DataLoader with the schedule of the example that this replaces: the moments of all clips, one after
the other, are cut into as many equal parts as a batch has slots, whatever clips that cuts, and
batches are dealt to ranks, and by the DataLoader to workers, in turn."""


CameraTurn = tuple[CameraWay, int, int]
"""A way, the number of ranks, and of workers of each."""

_PASSED_ON: Final = 1.5
"""What collating and passing on in a DataLoader make of decoding: benchmarks/bench_cameras.py."""
_IN_WORKERS: Final[tuple[CameraWay, ...]] = ("dataset", "wandering")
"""Ways that start workers of a DataLoader."""


def started_workers(turns: Sequence[CameraTurn]) -> tuple[int, ...]:
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

    def seconds(self, turns: Sequence[CameraTurn], pictures: int) -> float:
        """Return how long turns take, each of so many pictures."""
        return self._starting(turns) + pictures * self._each(turns)

    def pictures(self, turns: Sequence[CameraTurn], seconds: float) -> int:
        """Return how many pictures each turn may read for all to take so long; 0 if none."""
        return max(0, int((seconds - self._starting(turns)) / self._each(turns)))

    def _starting(self, turns: Sequence[CameraTurn]) -> float:
        return sum(
            self.start_seconds * self._shared(ranks) + self._starting_workers(way, ranks, workers)
            for way, ranks, workers in turns
        )

    def _starting_workers(self, way: CameraWay, ranks: int, workers: int) -> float:
        if way not in _IN_WORKERS:
            return 0.0
        of_one = self.worker_seconds[workers]
        return of_one * self._shared(ranks * workers) / self._shared(workers)

    def _shared(self, processes: int) -> float:
        """Return how many times as long processes take beside each other as one alone."""
        return max(1.0, processes / self.cores)

    def _each(self, turns: Sequence[CameraTurn]) -> float:
        """Return the seconds that a picture more takes in all turns together."""
        return sum(
            self.picture_seconds
            * self._work(way, ranks * workers)
            / min(self.cores, ranks * workers)
            for way, ranks, workers in turns
        )

    def _work(self, way: CameraWay, processes: int) -> float:
        """Return what a way does for a picture, in decodings of one."""
        decoded = min(float(processes), self.gop) if way == "wandering" else 1.0
        return max(1.0, decoded) * (_PASSED_ON if way in _IN_WORKERS else 1.0)
