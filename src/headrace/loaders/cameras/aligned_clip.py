"""AlignedClip: which frames of one clip's cameras belong together, moment by moment."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace.errors import DecodeError
from headrace.loaders.cameras.camera_alignment import (
    Alignment,
    CameraClock,
    OpenedClip,
    Reference,
    mismatch,
)
from headrace.sampling.moment_windows import MISSING, nearest, previous, repeated, same_index
from headrace.sampling.moments import Moments
from headrace.video.camera_layout import CameraClip
from headrace.video.stream_index import StreamIndex


@dataclass(frozen=True, kw_only=True, eq=False)
class AlignedClip:
    """One clip: its cameras' indexes, and a row of frames for each moment that is delivered."""

    number: int
    """Its place in the layout."""
    clip: CameraClip
    indexes: tuple[StreamIndex, ...]
    """Of each camera; that of the first there is stands in for one that is not there."""
    moments: NDArray[np.int64]
    """int64 [M], ascending: the number of each moment, which is the reference's frame."""
    moment_seconds: NDArray[np.float64]
    """float64 [M], ascending: when each moment is, on the common clock."""
    reference_seconds: NDArray[np.float64]
    """float64, ascending: the same of all moments that the reference has."""
    frames: NDArray[np.int64]
    """int64 [M, cameras]: the frame of each camera; `MISSING` where there is none."""
    is_own: NDArray[np.bool_]
    """bool [M, cameras]: false where a frame is missing, or repeats another moment's."""
    seconds: tuple[NDArray[np.float64], ...]
    """For each camera: when each of its frames was taken, on the common clock."""
    dropped: int
    """Moments that were asked for and left out, for want of a frame."""
    surplus: int
    """Frames that cameras have behind the end of the reference, where `sync` is `index`."""
    lacking: tuple[Path, ...]
    """Files of cameras that are not there, or cannot be opened: no moment has a frame of them."""

    def __len__(self) -> int:
        return len(self.moments)


def align(opened: OpenedClip, alignment: Alignment, chosen: Moments | None = None) -> AlignedClip:
    """Return which frames belong together.

    Args:
        opened: At least one camera; the reference too, if it is named.
        alignment: What belongs together.
        chosen: Which moments are delivered; None means all.

    Raises:
        ConfigError: moments are chosen that the clip does not have.
        DecodeError: a camera has no frame for a moment, and that is an error.
    """
    table = _Table.of(opened, alignment)
    reference, frames = table.reference, table.frames
    rows = np.arange(len(reference.seconds))
    if chosen is not None:
        may_lack = alignment.on_missing == "drop"
        rows = chosen.of(opened.clip.name, reference.seconds, may_lack=may_lack)
    if alignment.on_missing == "raise":
        for error in table.mismatches(alignment, rows):
            raise error
    is_there = frames != MISSING
    if alignment.on_missing == "repeat":
        frames = np.stack([repeated(each) for each in frames.T], axis=1)
    kept = rows[is_there[rows].all(axis=1)] if alignment.on_missing == "drop" else rows
    beyond = (max(0, len(index) - len(reference.seconds)) for index in table.indexes)
    return AlignedClip(
        number=opened.number,
        clip=opened.clip,
        indexes=table.indexes,
        moments=kept,
        moment_seconds=reference.seconds[kept],
        reference_seconds=reference.seconds,
        frames=frames[kept],
        is_own=is_there[kept],
        seconds=table.seconds,
        dropped=len(rows) - len(kept),
        surplus=sum(beyond) if alignment.sync == "index" else 0,
        lacking=opened.lacking,
    )


def mismatches(opened: OpenedClip, alignment: Alignment) -> Iterator[DecodeError]:
    """Yield why cameras do not fit the reference of their clip, whatever is done about it."""
    yield from _Table.of(opened, alignment).mismatches(alignment)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Table:
    """All moments of a clip, and what each camera shows then."""

    is_there: tuple[bool, ...]
    """Of each camera."""
    indexes: tuple[StreamIndex, ...]
    seconds: tuple[NDArray[np.float64], ...]
    reference: Reference
    frames: NDArray[np.int64]
    """int64 [moments, cameras]."""

    @classmethod
    def of(cls, opened: OpenedClip, alignment: Alignment) -> "_Table":
        is_there = tuple(index is not None for index in opened.indexes)
        stand_in = next(index for index in opened.indexes if index is not None)
        indexes = tuple(index or stand_in for index in opened.indexes)
        seconds = tuple(
            _seconds(opened.clip.name if is_one else None, camera, index, alignment)
            for camera, index, is_one in zip(opened.cameras, indexes, is_there, strict=True)
        )
        reference = _reference(opened, alignment, seconds)
        frames = _frames(reference, seconds, alignment)
        frames[:, ~np.array(is_there)] = MISSING
        return cls(
            is_there=is_there, indexes=indexes, seconds=seconds, reference=reference, frames=frames
        )

    def mismatches(
        self, alignment: Alignment, rows: NDArray[np.int64] | None = None
    ) -> Iterator[DecodeError]:
        """Yield why cameras do not fit the reference, at `rows` or at all moments.

        By index all count: another number of frames means that places do not say what belongs
        together.
        """
        asked = None if alignment.sync == "index" else rows
        for place, (index, is_there) in enumerate(zip(self.indexes, self.is_there, strict=True)):
            if place == self.reference.place or not is_there:
                continue
            first = index if self.reference.place is None else self.indexes[self.reference.place]
            fits = self.frames[:, place], self.seconds[place]
            error = mismatch(self.reference, (first, index), *fits, alignment, asked)
            if error is not None:
                yield error


def _reference(
    opened: OpenedClip, alignment: Alignment, seconds: Sequence[NDArray[np.float64]]
) -> Reference:
    """Return what the moments of a clip are; `seconds` are of each camera."""
    there = [place for place, index in enumerate(opened.indexes) if index is not None]
    if alignment.is_longest:
        place = max(there, key=lambda each: len(seconds[each]))
    elif alignment.reference is None:
        place = there[0]
    elif alignment.reference in opened.cameras:
        place = opened.cameras.index(alignment.reference)
    else:
        assert alignment.times is not None, "check_alignment refuses a reference without times"
        times = alignment.times.of_clock(opened.clip.name, alignment.reference)
        on_clock = _clock(alignment.reference, alignment).of(times)
        return Reference(name=f"clock {alignment.reference}", place=None, seconds=on_clock)
    is_first = place == 0 and alignment.reference is None
    return Reference(
        name="the first camera" if is_first else f"camera {opened.cameras[place]}",
        place=place,
        seconds=seconds[place],
    )


def _frames(
    reference: Reference, seconds: Sequence[NDArray[np.float64]], alignment: Alignment
) -> NDArray[np.int64]:
    """Return int64 [moments, cameras]: the frame that belongs to each moment of the reference."""
    length = len(reference.seconds)
    if alignment.sync == "index":
        return np.stack([same_index(length, len(times)) for times in seconds], axis=1)
    match = partial(
        nearest if alignment.sync == "nearest" else previous,
        reference.seconds,
        tolerance=alignment.tolerance_ms / 1000,
    )
    found = [
        np.arange(length) if place == reference.place else match(times)
        for place, times in enumerate(seconds)
    ]
    return np.stack(found, axis=1)


def _seconds(
    clip: str | None, camera: str, index: StreamIndex, alignment: Alignment
) -> NDArray[np.float64]:
    """Return when each frame of a camera was taken, on the common clock.

    `clip` is None where another camera stands in for it, whose frames are not shown for it.
    """
    if clip is None or alignment.times is None:
        seconds = index.seconds_of(np.arange(len(index)))
    else:
        seconds = alignment.times.of_frames(clip, camera, len(index))
    return _clock(camera, alignment).of(seconds)


def _clock(name: str, alignment: Alignment) -> CameraClock:
    return (alignment.clocks or {}).get(name, CameraClock())
