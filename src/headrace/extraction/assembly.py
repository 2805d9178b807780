"""Batches put together from the parts that decoders fill, each in its place."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from headrace.decode.pixels import Array, Stack
from headrace.decode.protocol import DecodeJob, Decoder
from headrace.decode.reading import Reading, read
from headrace.planning.batches import BatchPart
from headrace.runtime.clock import Clock
from headrace.video.frames import FrameBatch


def _nothing() -> None:
    """Do nothing: what is asked of the CPU is done."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FilledPart:
    """A part of a batch with its frames where they belong, as far as they came."""

    video: int
    """Place of the video in the list that was asked for."""
    reading: Reading
    """What became of its frames."""
    batch: Array | None
    """uint8 [N, H, W, 3]: memory of the whole batch; None where no frame came."""
    is_last: bool
    """Whether the batch is full with it."""
    seconds: float
    """How long decoding it took, in its thread."""


def fill(
    decoder: Decoder[Array],
    video: int,
    part: BatchPart,
    batch: Array,
    *,
    conceals: bool,
    clock: Clock,
    finish: Callable[[], None] = _nothing,
) -> FilledPart:
    """Decode a part into its places in `batch`, uint8 [N, H, W, 3].

    `finish` waits until a device has done what it was asked for, so that it is timed.
    """
    began_ns = clock.now_ns()
    job = DecodeJob(part.wanted, conceals=conceals)
    places: Array = batch[part.first : part.stop]
    reading = read(decoder, job, places)
    finish()
    return FilledPart(
        video=video,
        reading=reading,
        batch=batch,
        is_last=part.is_last,
        seconds=(clock.now_ns() - began_ns) / 1e9,
    )


def fill_by_size(
    decoder: Decoder[Array],
    video: int,
    wanted: tuple[int, ...],
    *,
    take: Callable[[tuple[int, ...]], Array],
    conceals: bool,
    clock: Clock,
    finish: Callable[[], None] = _nothing,
) -> list[FilledPart]:
    """Decode frames into a batch of their own; into several where they change their size."""
    parts: list[FilledPart] = []
    while wanted:
        began_ns = clock.now_ns()
        stack: Stack[Array] = Stack(len(wanted), take)
        reading = read(decoder, DecodeJob(wanted, conceals=conceals), stack)
        finish()
        # From the first of another size on, all belong in a later batch.
        stop = min((k for k in stack.misfits if k), default=len(wanted))
        frames: Array | None = stack.frames[:stop] if reading.came else None
        reading = replace(reading, wanted=wanted[:stop])
        parts.append(
            FilledPart(
                video=video,
                reading=reading,
                batch=frames,
                is_last=True,
                seconds=(clock.now_ns() - began_ns) / 1e9,
            )
        )
        wanted = wanted[stop:]
    return parts


def assembled(
    parts: Sequence[FilledPart],
    *,
    stop: int | None = None,
) -> FrameBatch | None:
    """Return the batch of all its parts, of what came; None where nothing did.

    Cost: nothing is copied unless a frame did not come.

    Args:
        parts: In order; the last may be missing.
        stop: Index of a frame of the video from which on none is wanted.
    """
    wanted = np.array([index for part in parts for index in part.reading.wanted], np.int64)
    came = np.isin(wanted, [index for part in parts for index in part.reading.came])
    if stop is not None:
        came &= wanted < stop
    frames = parts[-1].batch
    if frames is None or not came.any():
        return None
    index = parts[0].reading.index
    concealed = [number for part in parts for number in part.reading.concealed]
    if len(wanted) < len(frames) or not came.all():
        frames, wanted = frames[: len(wanted)][np.flatnonzero(came).tolist()], wanted[came]
    return FrameBatch(
        frames=frames,
        video=parts[0].video,
        index=wanted,
        pts=index.pts[wanted],
        time_base=index.info.time_base,
        is_concealed=np.isin(wanted, concealed),
        decode_seconds=sum(part.seconds for part in parts),
    )
