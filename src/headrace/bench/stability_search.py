"""The smallest batch size and queue depth that hold, found in few trials. Pure.

candidate = next_candidate(tried, ...)  # measure it, add what came of it, ask again, until None
"""

from collections.abc import Sequence
from dataclasses import dataclass


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
