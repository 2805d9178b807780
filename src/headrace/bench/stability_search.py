"""Batch size and queue depth: how steady one repetition was, and which to try next. Pure.

candidate = next_candidate(tried, ...)  # measure it, add what came of it, ask again, until None
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

from pydantic import PositiveFloat, PositiveInt

from headrace.measuring.interleaved import Turn


@dataclass(frozen=True, kw_only=True, order=True)
class Candidate:
    """A way to run; the smaller one has the smaller batches, then the shorter queues."""

    batch_size: int
    queue_depth: int

    def __str__(self) -> str:
        """`batch size 4, queue depth 2`."""
        return f"batch size {self.batch_size}, queue depth {self.queue_depth}"


def next_candidate(
    tried: Sequence[tuple[Candidate, bool]],
    batch_sizes: Sequence[int],
    queue_depths: Sequence[int],
) -> Candidate | None:
    """Return what to try next; None when the answer is known.

    Batch sizes go up, each with the deepest queues, until one holds; then the shortest queues that
    hold with it are found by halving. That a deeper queue is no worse is taken for granted.

    Args:
        tried: What was tried, and whether it held.
        batch_sizes: Those there are, at least one.
        queue_depths: Those there are, at least one.
    """
    held, depths = dict(tried), sorted(queue_depths)
    for batch_size in sorted(batch_sizes):
        deepest = Candidate(batch_size=batch_size, queue_depth=depths[-1])
        if deepest not in held:
            return deepest
        if held[deepest]:
            return _shallower(held, batch_size, depths)
    return None


def smallest_held(tried: Sequence[tuple[Candidate, bool]]) -> Candidate | None:
    """Return the smallest that held; None if none did."""
    return min((candidate for candidate, holds in tried if holds), default=None)


def _shallower(
    held: dict[Candidate, bool], batch_size: int, depths: Sequence[int]
) -> Candidate | None:
    broken, holding = -1, len(depths) - 1
    while holding - broken > 1:
        place = (broken + holding) // 2
        candidate = Candidate(batch_size=batch_size, queue_depth=depths[place])
        if candidate not in held:
            return candidate
        if held[candidate]:
            holding = place
        else:
            broken = place
    return None


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
