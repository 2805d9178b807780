"""One turn of `bench stability`: the FPS of each iteration once the queues have filled."""

from collections.abc import Sequence
from statistics import fmean, pstdev

from pydantic import PositiveFloat, PositiveInt

from headrace.bench.stability_search import Candidate
from headrace.measuring.interleaved import Turn


class StabilityTurn(Turn):
    """One candidate, once."""

    batch_size: PositiveInt
    queue_depth: PositiveInt
    """Batches that could wait behind each stage."""
    warm_up: PositiveInt
    """Results that came before those that count."""
    fps: tuple[PositiveFloat, ...]
    """Of each iteration: frames of the batch ÷ time since the result before it came out."""
    frames_per_second: PositiveFloat
    """Frames ÷ time, all iterations together."""

    @property
    def candidate(self) -> Candidate:
        """What was tried."""
        return Candidate(batch_size=self.batch_size, queue_depth=self.queue_depth)

    @property
    def cv(self) -> float:
        """Standard deviation ÷ mean of the FPS by iteration. 0 is a metronome."""
        return _cv(self.fps)

    @property
    def interval_cv(self) -> float:
        """The same of the times between results, in which none counts more than it took."""
        return _cv([1 / fps for fps in self.fps])


def warm_up_of(queue_depth: int) -> int:
    """Return how many results do not count: until the queues before the model can have filled."""
    return max(10, 3 * (queue_depth + 1))


def fps_by_iteration(
    out_ns: Sequence[int], frames: Sequence[int], batch_size: int
) -> tuple[list[float], int, int]:
    """Return the FPS of each iteration, and the frames and nanoseconds they rest on.

    Args:
        out_ns: When each result came out, ascending; the first one is where counting begins.
        frames: How many frames each has. Batches that are shorter, such as the last of a video,
            do not count.
        batch_size: Of a whole batch.
    """
    fps, nanoseconds = [], 0
    for before, now, number in zip(out_ns, out_ns[1:], frames[1:], strict=False):
        if number == batch_size:
            interval_ns = max(1, now - before)
            fps.append(batch_size * 1e9 / interval_ns)
            nanoseconds += interval_ns
    return fps, batch_size * len(fps), nanoseconds


def _cv(values: Sequence[float]) -> float:
    return pstdev(values) / fmean(values)
