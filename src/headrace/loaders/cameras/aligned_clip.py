"""AlignedClip: cameras of one clip, matched frame by frame to the moments of its reference."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace.errors import DecodeError
from headrace.loaders.cameras.camera_alignment import Alignment, CameraClock
from headrace.sampling.moments import MISSING, Moments, nearest, previous, repeated, same_index
from headrace.video.camera_layout import CameraClip
from headrace.video.stream_index import StreamIndex


@dataclass(frozen=True, kw_only=True, eq=False)
class AlignedClip:
    """Indexes of a clip's cameras, and one row of frames per delivered moment."""

    number: int
    """Position in the layout."""
    clip: CameraClip
    indexes: tuple[StreamIndex, ...]
    """One per camera. For an unreadable camera: the index of the first readable one."""
    moments: NDArray[np.int64]
    """int64 [M], ascending: number of each moment, which is its frame of the reference."""
    moment_seconds: NDArray[np.float64]
    """float64 [M], ascending: time of each moment on the common clock."""
    reference_seconds: NDArray[np.float64]
    """float64, ascending: times of all moments of the reference, delivered or not."""
    frames: NDArray[np.int64]
    """int64 [M, cameras]: frame of each camera; `MISSING` where a camera has none."""
    is_own: NDArray[np.bool_]
    """bool [M, cameras]: false where a frame is missing, or repeats another moment's."""
    seconds: tuple[NDArray[np.float64], ...]
    """One array per camera: capture times of its frames on the common clock."""
    dropped: int
    """Chosen moments that were dropped because a camera has no frame."""
    surplus: int
    """Frames of cameras after the end of the reference, with `sync="index"`."""
    lacking: tuple[Path, ...]
    """Files of masked cameras: missing, or not readable."""

    def __len__(self) -> int:
        return len(self.moments)


_POLICIES = "choose on_missing='drop', 'mask' or 'repeat' in Alignment"


@dataclass(frozen=True, kw_only=True, eq=False)
class MatchedClip:
    """Frames of all moments of a clip, before `on_missing` is applied."""

    number: int
    """Position in the layout."""
    clip: CameraClip
    cameras: tuple[str, ...]
    indexes: tuple[StreamIndex, ...]
    """As `AlignedClip.indexes`."""
    is_open: NDArray[np.bool_]
    """bool [cameras]: whether the camera can be read."""
    seconds: tuple[NDArray[np.float64], ...]
    """As `AlignedClip.seconds`."""
    frames: NDArray[np.int64]
    """int64 [moments, cameras]."""
    alignment: Alignment
    reference: int | None
    """Position of the reference camera; None for a clock."""
    reference_name: str
    """For messages: "the first camera", "camera front", "clock lidar"."""
    reference_seconds: NDArray[np.float64]
    """float64 [moments], ascending, on the common clock."""

    @classmethod
    def match(
        cls,
        number: int,
        clip: CameraClip,
        cameras: tuple[str, ...],
        indexes: Sequence[StreamIndex | None],
        alignment: Alignment,
    ) -> "MatchedClip":
        """Match the frames of a clip's cameras to the moments of the reference.

        Args:
            number: Position of the clip in the layout.
            clip: The clip.
            cameras: Names of its cameras.
            indexes: One per camera; None for an unreadable one. At least one is readable, and so is
                the reference if it is a camera.
            alignment: Assignment of frames to moments.
        """
        is_open = np.array([index is not None for index in indexes])
        stand_in = next(index for index in indexes if index is not None)
        opened = tuple(stand_in if index is None else index for index in indexes)
        seconds = tuple(
            _frame_seconds(alignment, clip.name, camera, index, has_times=bool(has_times))
            for camera, index, has_times in zip(cameras, opened, is_open, strict=True)
        )
        reference, name = _choose_reference(alignment, cameras, is_open, seconds)
        if reference is None:
            assert alignment.times is not None, "check_alignment refuses a reference without times"
            times = alignment.times.of_clock(clip.name, name)
            moments = _clock(alignment, name).of(times)
            name = f"clock {name}"
        else:
            moments = seconds[reference]
        frames = np.stack(
            [
                np.arange(len(moments))
                if camera == reference
                else _match_frames(alignment, moments, times)
                for camera, times in enumerate(seconds)
            ],
            axis=1,
        )
        frames[:, ~is_open] = MISSING
        return cls(
            number=number,
            clip=clip,
            cameras=cameras,
            indexes=opened,
            is_open=is_open,
            seconds=seconds,
            frames=frames,
            alignment=alignment,
            reference=reference,
            reference_name=name,
            reference_seconds=moments,
        )

    def align(self, chosen: Moments | None = None) -> AlignedClip:
        """Apply `on_missing` to the chosen moments; None: all.

        Raises:
            ConfigError: a chosen moment is not in the clip.
            DecodeError: a camera has no frame for a moment, and `on_missing` is `raise`.
        """
        on_missing, frames = self.alignment.on_missing, self.frames
        rows = np.arange(len(self.reference_seconds))
        if chosen is not None:
            may_lack = on_missing == "drop"
            rows = chosen.of(self.clip.name, self.reference_seconds, may_lack=may_lack)
        if on_missing == "raise":
            for error in self.errors(rows):
                raise error
        is_own = frames != MISSING
        if on_missing == "repeat":
            frames = np.stack([repeated(column) for column in frames.T], axis=1)
        delivered = rows[is_own[rows].all(axis=1)] if on_missing == "drop" else rows
        surplus = (max(0, len(index) - len(self.reference_seconds)) for index in self.indexes)
        return AlignedClip(
            number=self.number,
            clip=self.clip,
            indexes=self.indexes,
            moments=delivered,
            moment_seconds=self.reference_seconds[delivered],
            reference_seconds=self.reference_seconds,
            frames=frames[delivered],
            is_own=is_own[delivered],
            seconds=self.seconds,
            dropped=len(rows) - len(delivered),
            surplus=sum(surplus) if self.alignment.sync == "index" else 0,
            lacking=tuple(
                self.clip.file(camera)
                for camera, is_open in zip(self.cameras, self.is_open, strict=True)
                if not is_open
            ),
        )

    def errors(self, rows: NDArray[np.int64] | None = None) -> Iterator[DecodeError]:
        """Yield one error for each camera that does not match the reference at the moments `rows`.

        None: all moments. `sync="index"` always checks all of them: if the numbers of frames
        differ, equal indices are not equal moments.
        """
        if rows is None or self.alignment.sync == "index":
            rows = np.arange(len(self.reference_seconds))
        for camera in np.flatnonzero(self.is_open).tolist():
            error = None if camera == self.reference else self._mismatch(camera, rows)
            if error is not None:
                yield error

    def _mismatch(self, camera: int, rows: NDArray[np.int64]) -> DecodeError | None:
        index = self.indexes[camera]
        first = index if self.reference is None else self.indexes[self.reference]
        is_index, length = self.alignment.sync == "index", len(self.reference_seconds)
        by_time = self._rates(first, index) if is_index else ", or raise tolerance_ms"
        missing = rows[self.frames[rows, camera] == MISSING]
        if len(missing):
            moment = int(missing[0])
            reason = (
                f"it has {len(index)} frames, {self.reference_name} {length}"
                if is_index
                else self._gap(camera, moment)
            )
            return DecodeError(
                f"{index.source} has no frame for {len(missing)} of {len(rows)} moments, the first "
                f"is frame {moment} of {self.reference_name}: {reason}; {_POLICIES}{by_time}",
                source=str(index.source),
                pts=None if self.reference is None else int(first.pts[moment]),
                missing=[moment],
            )
        if is_index and len(index) > length:
            return DecodeError(
                f"{first.source} ends after {length} frames, {index.source} has {len(index)}; "
                f"{_POLICIES}{by_time}",
                source=str(first.source),
                pts=int(first.pts[-1]),
            )
        return None

    def _gap(self, camera: int, moment: int) -> str:
        """Describe the distance of a camera's nearest frame from a moment without a frame."""
        gaps, which = self.seconds[camera] - self.reference_seconds[moment], "nearest"
        if self.alignment.sync == "previous":
            gaps, which = gaps[gaps <= 0], "latest earlier"
            if not len(gaps):
                return "it has no earlier frame"
        gap_ms = np.abs(gaps).min() * 1000
        return (
            f"its {which} frame is {gap_ms:.1f} ms away, the tolerance is "
            f"{self.alignment.tolerance_ms:g} ms"
        )

    def _rates(self, first: StreamIndex, other: StreamIndex) -> str:
        """Return advice to align by time, if the frame rates differ by more than 1 %."""
        rates = first.frame_rate, other.frame_rate
        if max(rates) * 100 <= min(rates) * 101:
            return ""
        reference_rate, rate = (f"{float(rate):.3g}" for rate in rates)
        return (
            f"; or, as it has {rate} frames/s and {self.reference_name} {reference_rate}, align "
            "them by time with sync='nearest' or 'previous'"
        )


def _choose_reference(
    alignment: Alignment,
    cameras: tuple[str, ...],
    is_open: NDArray[np.bool_],
    seconds: Sequence[NDArray[np.float64]],
) -> tuple[int | None, str]:
    """Return the position and description of the reference camera, or None and the clock's name."""
    opened: list[int] = np.flatnonzero(is_open).tolist()
    if alignment.is_longest:
        camera = max(opened, key=lambda position: len(seconds[position]))
    elif alignment.reference is None:
        camera = opened[0]
    elif alignment.reference in cameras:
        camera = cameras.index(alignment.reference)
    else:
        return None, alignment.reference
    is_first = camera == 0 and alignment.reference is None
    return camera, "the first camera" if is_first else f"camera {cameras[camera]}"


def _match_frames(
    alignment: Alignment, moments: NDArray[np.float64], times: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return int64 [moments]: the frame of a camera, captured at `times`, for each moment."""
    if alignment.sync == "index":
        return same_index(len(moments), len(times))
    match = nearest if alignment.sync == "nearest" else previous
    return match(moments, times, alignment.tolerance_ms / 1000)


def _frame_seconds(
    alignment: Alignment, clip: str, camera: str, index: StreamIndex, *, has_times: bool
) -> NDArray[np.float64]:
    """Return the capture time of each frame of a camera on the common clock.

    `has_times` is false for an unreadable camera, where `index` is another camera's.
    """
    if alignment.times is None or not has_times:
        seconds = index.seconds_of(np.arange(len(index)))
    else:
        seconds = alignment.times.of_frames(clip, camera, len(index))
    return _clock(alignment, camera).of(seconds)


def _clock(alignment: Alignment, name: str) -> CameraClock:
    return (alignment.clocks or {}).get(name, CameraClock())
