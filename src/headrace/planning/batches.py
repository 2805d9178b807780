"""From stretches of one video to batches: which frames of which stretch fill which of them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from headrace.planning.stretches import Stretch


@dataclass(frozen=True, kw_only=True)
class BatchPart:
    """Frames of one stretch that stand in one batch, one after the other: one decode job."""

    batch: int
    """Number of the batch among all that are planned."""
    first: int
    """Place of the first of these frames in the batch."""
    wanted: tuple[int, ...]
    """Indices of the frames, ascending."""
    batch_frames: int
    """Frames in the whole batch."""

    @property
    def stop(self) -> int:
        """Place behind the last of these frames in the batch."""
        return self.first + len(self.wanted)

    @property
    def is_last(self) -> bool:
        """Whether the batch is full with it."""
        return self.stop == self.batch_frames


def batch_parts(
    stretches: Iterable[Stretch],
    num_frames: int,
    *,
    batch_size: int,
    most: int,
    first_batch: int = 0,
) -> Iterator[tuple[Stretch, list[BatchPart]]]:
    """Yield every stretch with its parts, in order; a batch may have parts of several stretches.

    All batches have `batch_size` frames, but for the last.

    Args:
        stretches: Of one video, in order.
        num_frames: Frames in all of them.
        batch_size: Frames in a batch.
        most: Frames in a part, at most.
        first_batch: Number of the first batch.
    """
    place = 0
    for stretch in stretches:
        parts: list[BatchPart] = []
        at = 0
        while at < len(stretch.wanted):
            batch, first = divmod(place, batch_size)
            size = min(batch_size, num_frames - batch * batch_size)
            wanted = stretch.wanted[at : at + min(most, size - first)]
            number = first_batch + batch
            parts.append(BatchPart(batch=number, first=first, wanted=wanted, batch_frames=size))
            at += len(wanted)
            place += len(wanted)
        yield stretch, parts
