"""Alignment: assignment of the frames of several cameras to moments, and the aligned clips."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError, DecodeError
from headrace.loaders.cameras.camera_times import CameraTimes
from headrace.sampling.moments import (
    MISSING,
    Moments,
    OnMissing,
    Sync,
    nearest,
    previous,
    repeated,
    same_index,
)
from headrace.units import check_numbers, is_number, one_of
from headrace.video.camera_layout import CameraClip, CameraLayout
from headrace.video.stream_index import StreamIndex

LONGEST = "longest"


@dataclass(frozen=True, kw_only=True)
class CameraClock:
    """Conversion of a camera's clock to the common clock: `offset_seconds + rate * time`.

    Raises:
        ConfigError: the offset or the rate is not finite, or the rate is not above 0.
    """

    offset_seconds: float = 0.0
    rate: float = 1.0

    def __post_init__(self) -> None:
        values = (self.offset_seconds, self.rate)
        if not all(is_number(value) and math.isfinite(value) for value in values) or self.rate <= 0:
            raise ConfigError(f"a clock must have a finite offset and a rate above 0, got {self}")

    def of(self, seconds: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return times of the camera's clock as times of the common clock."""
        return self.offset_seconds + self.rate * seconds


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """Assignment of frames to moments, and the rule for a moment without a camera's frame.

    Raises:
        ConfigError: a field has the wrong type, or is out of range.
    """

    sync: Sync = "index"
    """`index`: frames of the same index. `nearest`: each camera's frame nearest in time to the
    reference's. `previous`: its latest frame not after the reference's, as in a live system."""
    tolerance_ms: float = 50.0
    """Max distance of a frame from its moment, in milliseconds; not used by `index`."""
    on_missing: OnMissing = "raise"
    """Rule for a moment at which a camera has no frame: `raise` an error; `drop` the moment for all
    cameras; `mask`: a black frame, marked; `repeat` the camera's last frame, marked."""
    clocks: Mapping[str, CameraClock] | None = None
    """Clocks by camera name. Cameras without an entry are on the common clock."""
    times: CameraTimes | None = None
    """Capture times that replace the times of the files. They must include every camera that is
    read, and the reference if it is a clock. `clocks` apply to them too."""
    reference: str | None = None
    """Camera whose frames are the moments; each clip must have it. With `nearest` or `previous` it
    may be a clock in `times`, such as a lidar's. `longest`: the camera with the most frames in each
    clip, the first on a tie. None: the first camera of the clip; with `index` and an `on_missing`
    other than `raise`, the longest, so that moments after the end of a short camera are
    included."""

    def __post_init__(self) -> None:
        one_of(Sync, sync=self.sync)
        one_of(OnMissing, on_missing=self.on_missing)
        check_numbers(0, tolerance_ms=self.tolerance_ms)
        _check_clocks(self.clocks)
        if not isinstance(self.reference, str | None):
            raise ConfigError(
                f"reference must be the name of a camera, {LONGEST!r} or None, "
                f"got {self.reference!r}"
            )
        if not isinstance(self.times, CameraTimes | None):
            raise ConfigError(
                "times must be CameraTimes, such as CameraTimes.read('times.csv'), "
                f"got {type(self.times).__name__}"
            )

    @property
    def is_longest(self) -> bool:
        """Whether the camera with the most frames is the reference."""
        is_default = self.reference is None and self.sync == "index" and self.on_missing != "raise"
        return is_default or self.reference == LONGEST


def _check_clocks(clocks: object) -> None:
    is_valid = isinstance(clocks, Mapping) and all(
        isinstance(clock, CameraClock) for clock in clocks.values()
    )
    if clocks is not None and not is_valid:
        raise ConfigError(
            "clocks must map camera names to CameraClock, such as "
            f"{{'left': CameraClock(offset_seconds=0.12)}}, got {clocks!r:.60}"
        )


def check_alignment(alignment: object, layout: CameraLayout) -> None:
    """Check that an alignment fits the cameras of a layout.

    Raises:
        ConfigError: the value is not an Alignment, it names an unknown camera, or its reference is
            a clock and `sync` is `index`.
    """
    if not isinstance(alignment, Alignment):
        raise ConfigError(
            f"alignment must be an Alignment, such as Alignment(sync='nearest'), got {alignment!r}"
        )
    names = ", ".join(layout.cameras)
    timed = frozenset() if alignment.times is None else alignment.times.clocks
    unknown = set(alignment.clocks or ()) - {*layout.cameras, *timed}
    if unknown:
        raise ConfigError(
            f"clocks has {', '.join(sorted(unknown))}, not a camera of the layout; it has {names}"
        )
    if alignment.reference in (None, LONGEST, *layout.cameras):
        return
    if alignment.reference not in timed:
        others = sorted(timed.difference(layout.cameras))
        clocks = f", a clock with times ({', '.join(others[:9])})" if others else ""
        raise ConfigError(
            f"the reference must be one of the cameras that are read, {names}{clocks}, or "
            f"{LONGEST}; got {alignment.reference!r}"
        )
    if alignment.sync == "index":
        raise ConfigError(
            f"reference {alignment.reference!r} is a clock, and sync='index' does not use times; "
            "set sync='nearest' or 'previous'"
        )


_POLICIES = "loaders accept it with Alignment(on_missing='drop'), 'mask' or 'repeat'"


@dataclass(frozen=True, kw_only=True, eq=False)
class AlignedClip:
    """Frames of a clip's cameras, one row per moment: `AlignedClip.match(...).align()`.

    `match` returns a row for every moment of the reference; `align` applies `on_missing`, and keeps
    the rows to deliver.
    """

    number: int
    """Position in the layout."""
    clip: CameraClip
    cameras: tuple[str, ...]
    indexes: tuple[StreamIndex, ...]
    """One per camera. For an unreadable camera: the index of the first readable one."""
    is_open: NDArray[np.bool_]
    """bool [cameras]: whether the camera can be read."""
    seconds: tuple[NDArray[np.float64], ...]
    """One array per camera: capture times of its frames on the common clock."""
    moments: NDArray[np.int64]
    """int64 [M], ascending: number of each moment, which is its frame of the reference."""
    frames: NDArray[np.int64]
    """int64 [M, cameras]: frame of each camera; `MISSING` where a camera has none."""
    is_own: NDArray[np.bool_]
    """bool [M, cameras]: false where a frame is missing, or repeats another moment's."""
    dropped: int = 0
    """Chosen moments that were dropped because a camera has no frame."""
    alignment: Alignment
    reference: int | None
    """Position of the reference camera; None for a clock."""
    reference_name: str
    """For messages: "camera front", "clock lidar"."""
    reference_seconds: NDArray[np.float64]
    """float64, ascending: times of all moments of the reference, delivered or not."""

    def __len__(self) -> int:
        return len(self.moments)

    @property
    def moment_seconds(self) -> NDArray[np.float64]:
        """float64 [M], ascending: time of each moment on the common clock."""
        return self.reference_seconds[self.moments]

    @property
    def surplus(self) -> int:
        """Frames of cameras after the end of the reference, with `sync="index"`."""
        length = len(self.reference_seconds)
        surplus = sum(max(0, len(index) - length) for index in self.indexes)
        return surplus if self.alignment.sync == "index" else 0

    @property
    def lacking(self) -> tuple[Path, ...]:
        """Files of masked cameras: missing, or not readable."""
        return tuple(self.clip.file(self.cameras[k]) for k in np.flatnonzero(~self.is_open))

    @classmethod
    def match(
        cls,
        number: int,
        clip: CameraClip,
        cameras: tuple[str, ...],
        opened: Mapping[str, StreamIndex],
        alignment: Alignment,
    ) -> Self:
        """Match the frames of a clip's cameras to the moments of the reference.

        Args:
            number: Position of the clip in the layout.
            clip: The clip.
            cameras: Names of its cameras.
            opened: Camera → its index, without unreadable cameras: one or more, and the reference
                if it is a camera.
            alignment: Assignment of frames to moments.
        """
        is_open = np.array([camera in opened for camera in cameras])
        indexes = tuple(opened.get(camera, next(iter(opened.values()))) for camera in cameras)
        seconds = tuple(
            _frame_seconds(alignment, clip.name, camera, index, has_times=bool(has_times))
            for camera, index, has_times in zip(cameras, indexes, is_open, strict=True)
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
            indexes=indexes,
            is_open=is_open,
            seconds=seconds,
            moments=np.arange(len(moments)),
            frames=frames,
            is_own=frames != MISSING,
            alignment=alignment,
            reference=reference,
            reference_name=name,
            reference_seconds=moments,
        )

    def align(self, chosen: Moments | None = None) -> Self:
        """Apply `on_missing` to the chosen moments; None: all.

        Raises:
            ConfigError: a chosen moment is not in the clip.
            DecodeError: a camera has no frame for a moment, and `on_missing` is `raise`.
        """
        on_missing, frames, rows = self.alignment.on_missing, self.frames, self.moments
        if chosen is not None:
            may_lack = on_missing == "drop"
            rows = chosen.of(self.clip.name, self.reference_seconds, may_lack=may_lack)
        if on_missing == "raise":
            for error in self.errors(rows):
                raise error
        if on_missing == "repeat":
            frames = np.stack([repeated(column) for column in frames.T], axis=1)
        delivered = rows[self.is_own[rows].all(axis=1)] if on_missing == "drop" else rows
        return replace(
            self,
            moments=delivered,
            frames=frames[delivered],
            is_own=self.is_own[delivered],
            dropped=len(rows) - len(delivered),
        )

    def errors(self, rows: NDArray[np.int64] | None = None) -> Iterator[DecodeError]:
        """Yield one error for each camera that does not match the reference at the moments `rows`.

        None: all moments. `sync="index"` always checks all of them: if the numbers of frames
        differ, equal indices are not equal moments.
        """
        if rows is None or self.alignment.sync == "index":
            rows = self.moments
        for camera in np.flatnonzero(self.is_open).tolist():
            if camera != self.reference:
                yield from self._mismatches(camera, rows)

    def _mismatches(self, camera: int, rows: NDArray[np.int64]) -> Iterator[DecodeError]:
        index = self.indexes[camera]
        first = index if self.reference is None else self.indexes[self.reference]
        is_index, length = self.alignment.sync == "index", len(self.reference_seconds)
        by_time = self._rates(first, index) if is_index else "; or raise tolerance_ms"
        missing = rows[self.frames[rows, camera] == MISSING]
        if len(missing):
            moment = int(missing[0])
            reason = (
                f"it has {len(index)} frames, {self.reference_name} {length}"
                if is_index
                else self._gap(camera, moment)
            )
            yield DecodeError(
                f"{index.source} has no frame for {len(missing)} of {len(rows)} moments, the first "
                f"is frame {moment} of {self.reference_name}: {reason}; {_POLICIES}{by_time}",
                source=str(index.source),
                pts=None if self.reference is None else int(first.pts[moment]),
                missing=[moment],
            )
        elif is_index and len(index) > length:
            yield DecodeError(
                f"{first.source} ends after {length} frames, {index.source} has {len(index)}; "
                f"{_POLICIES}{by_time}",
                source=str(first.source),
                pts=int(first.pts[-1]),
            )

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
        """Return advice to match by time; with the frame rates, if they differ by more than 1 %."""
        advice, rates = (
            "; sync='nearest' (--sync nearest) matches by time",
            (first.frame_rate, other.frame_rate),
        )
        if max(rates) * 100 <= min(rates) * 101:
            return advice
        reference_rate, rate = (f"{float(rate):.3g}" for rate in rates)
        return f"{advice}: it has {rate} frames/s, {self.reference_name} {reference_rate}"


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
    return camera, f"camera {cameras[camera]}"


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
