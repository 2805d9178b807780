"""From stretches of one video to the jobs that a decoder runs for them."""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from headrace.decode.protocol import DecodeJob
from headrace.planning.stretches import Stretch


def jobs(
    planned: Sequence[Stretch], *, conceals: bool, goes_on: bool = False
) -> Iterator[DecodeJob]:
    """Yield a job for each stretch of one video; only where the next one follows does it read on.

    So a frame wanted now and then costs a seek and its own GOP up to it, and no more.

    Args:
        planned: In order.
        conceals: Whether damaged frames come as FFmpeg shows them.
        goes_on: Whether something follows the last of them.
    """
    for stretch, following in zip_longest(planned, planned[1:]):
        index = stretch.index
        follows = goes_on
        if following is not None:
            follows = index.gop_of(following.wanted[0]) == index.gop_of(stretch.wanted[-1]) + 1
        yield DecodeJob(stretch.wanted, goes_on=follows, conceals=conceals)


class JobLine:
    """Jobs that are taken by a number of frames, cut where that is needed."""

    def __init__(self, line: Iterator[DecodeJob]) -> None:
        """Take nothing yet."""
        self._left = deque(line)

    def take(self, frames: int) -> list[DecodeJob]:
        """Return the jobs of the next so many frames, or of all that are left."""
        taken: list[DecodeJob] = []
        while frames and self._left:
            job = self._left.popleft()
            if len(job.wanted) > frames:
                self._left.appendleft(
                    DecodeJob(job.wanted[frames:], goes_on=job.goes_on, conceals=job.conceals)
                )
                job = DecodeJob(job.wanted[:frames], conceals=job.conceals)
            taken.append(job)
            frames -= len(job.wanted)
        return taken
