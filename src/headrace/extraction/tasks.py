"""What one thread of a reader does in one go: a stretch, and the batches its frames go to."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from headrace.decode.pixels import Array
from headrace.planning.batches import BatchPart, batch_parts
from headrace.planning.stretches import Stretch


@dataclass(frozen=True, kw_only=True, eq=False)
class ReadingTask:
    """A stretch in parts, each of one batch."""

    stretch: Stretch
    parts: list[BatchPart]
    shared: dict[int, Array]
    """Number of a batch → uint8 [N, H, W, 3], where frames of other stretches go too."""


def batches_of_one_stretch(
    stretches: Iterable[Stretch], *, batch_size: int
) -> Iterator[ReadingTask]:
    """Cut every stretch into batches of at most `batch_size` that it has for itself."""
    for stretch in stretches:
        num_frames = len(stretch.wanted)
        for _, parts in batch_parts([stretch], num_frames, batch_size=batch_size, most=batch_size):
            yield ReadingTask(stretch=stretch, parts=parts, shared={})


def batches_over_stretches(
    stretches: Iterable[Stretch],
    num_frames: int,
    *,
    batch_size: int,
    most: int,
    first_batch: int = 0,
    new: Callable[[int], Array],
) -> Iterator[ReadingTask]:
    """Fill batches of exactly `batch_size` by the stretches of one video, in order.

    Args:
        stretches: Of one video.
        num_frames: Frames in all of them.
        batch_size: Frames in a batch.
        most: Frames in a part.
        first_batch: Number of the first batch.
        new: Takes memory for so many frames.
    """
    begun: dict[int, Array] = {}
    planned = batch_parts(
        stretches, num_frames, batch_size=batch_size, most=most, first_batch=first_batch
    )
    for stretch, parts in planned:
        first, last = parts[0], parts[-1]
        shared = {first.batch: begun[first.batch]} if first.first else {}
        if not last.is_last:
            # Taken here, and so once, although several threads fill it.
            begun = {last.batch: shared.get(last.batch, new(last.batch_frames))}
            shared |= begun
        yield ReadingTask(stretch=stretch, parts=parts, shared=shared)
