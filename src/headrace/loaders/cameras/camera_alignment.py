"""Alignment: which frames of several cameras belong together, as it is asked for."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError, DecodeError
from headrace.loaders.cameras.camera_times import CameraTimes
from headrace.sampling.moment_windows import MISSING, OnMissing, Sync
from headrace.units import check_numbers, is_number, one_of
from headrace.video.camera_layout import CameraClip, CameraLayout
from headrace.video.stream_index import StreamIndex

LONGEST = "longest"


@dataclass(frozen=True, kw_only=True)
class CameraClock:
    """How a camera's own time reads on the common clock: `offset_seconds + rate * time`."""

    offset_seconds: float = 0.0
    rate: float = 1.0

    def __post_init__(self) -> None:
        if not (_is_finite(self.offset_seconds) and _is_finite(self.rate) and self.rate > 0):
            raise ConfigError(f"a clock needs a finite offset and a rate above 0, got {self}")

    def of(self, seconds: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return times of its own on the common clock."""
        return self.offset_seconds + self.rate * seconds


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """What belongs together, and what happens where a camera has nothing."""

    sync: Sync = "index"
    tolerance_ms: float = 50.0
    """How far a frame may be from its moment; `index` does not look at times."""
    on_missing: OnMissing = "raise"
    clocks: Mapping[str, CameraClock] | None = None
    """For each camera whose times need it; the others are on the common clock."""
    times: CameraTimes | None = None
    """When frames were taken, in place of the times of the files: of every camera that is read, and
    of a clock that is the reference. `clocks` come on top."""
    reference: str | None = None
    """Whose frames are the moments: the name of a camera, which each clip needs then, or, by time,
    of a clock in `times`, such as a lidar; `longest`: of each clip the camera with the most frames,
    of equals the first; None: the first camera that the clip has. By index, what lies beyond a
    short camera is a moment too unless `on_missing` is `raise`: None means the longest then."""

    def __post_init__(self) -> None:
        one_of(Sync, sync=self.sync)
        one_of(OnMissing, on_missing=self.on_missing)
        check_numbers(0, tolerance_ms=self.tolerance_ms)
        _check_clocks(self.clocks)
        if not (self.reference is None or isinstance(self.reference, str)):
            raise ConfigError(
                f"reference must be the name of a camera, {LONGEST!r} or None, "
                f"got {self.reference!r}"
            )
        if not (self.times is None or isinstance(self.times, CameraTimes)):
            raise ConfigError(
                "times must be CameraTimes, such as CameraTimes.read('times.csv'), "
                f"got {type(self.times).__name__}"
            )

    @property
    def is_longest(self) -> bool:
        """Whether the camera with the most frames is the reference."""
        is_any = self.reference is None and self.sync == "index" and self.on_missing != "raise"
        return is_any or self.reference == LONGEST


def _check_clocks(clocks: object) -> None:
    is_right = isinstance(clocks, Mapping) and all(
        isinstance(each, CameraClock) for each in clocks.values()
    )
    if clocks is not None and not is_right:
        raise ConfigError(
            "clocks must be by name of the camera, such as "
            f"{{'left': CameraClock(offset_seconds=0.12)}}, got {clocks!r:.60}"
        )


def _is_finite(value: object) -> bool:
    return is_number(value) and math.isfinite(value)


def check_alignment(alignment: object, layout: CameraLayout) -> None:
    """Refuse what is no alignment of these cameras: ConfigError."""
    if not isinstance(alignment, Alignment):
        raise ConfigError(
            f"alignment must be an Alignment, such as Alignment(sync='nearest'), got {alignment!r}"
        )
    there = ", ".join(layout.cameras)
    further = frozenset() if alignment.times is None else alignment.times.clocks
    unknown = set(alignment.clocks or ()) - {*layout.cameras, *further}
    if unknown:
        raise ConfigError(
            f"there is no camera {', '.join(sorted(unknown))} to set a clock for; there is {there}"
        )
    if alignment.reference in (None, LONGEST, *layout.cameras):
        return
    if alignment.reference not in further:
        others = sorted(further.difference(layout.cameras))
        clocks = f", a clock that has times ({', '.join(others[:9])})" if others else ""
        raise ConfigError(
            f"the reference must be one of the cameras that are read, {there}{clocks}, or "
            f"{LONGEST}; got {alignment.reference!r}"
        )
    if alignment.sync == "index":
        raise ConfigError(
            f"the reference {alignment.reference!r} is a clock, and sync='index' does not look at "
            "times; choose sync='nearest' or 'previous'"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Reference:
    """What the moments of one clip are."""

    name: str
    """As errors call it: "the first camera", or "camera front"."""
    place: int | None
    """Of the camera whose frames are the moments; None where it is none of the cameras."""
    seconds: NDArray[np.float64]
    """float64 [M], ascending: when each moment is, on the common clock."""


@dataclass(frozen=True, kw_only=True, eq=False)
class OpenedClip:
    """The indexes of a clip's cameras, before they are aligned."""

    number: int
    """Place of the clip in the layout."""
    clip: CameraClip
    cameras: tuple[str, ...]
    indexes: tuple[StreamIndex | None, ...]
    """Of each camera, at least one; None where it is not there."""

    @property
    def lacking(self) -> tuple[Path, ...]:
        """Files of the cameras that are not there."""
        pairs = zip(self.cameras, self.indexes, strict=True)
        return tuple(self.clip.file(camera) for camera, index in pairs if index is None)


_POLICIES = "choose on_missing='drop', 'mask' or 'repeat' in Alignment"


def mismatch(
    reference: Reference,
    cameras: tuple[StreamIndex, StreamIndex],
    frames: NDArray[np.int64],
    seconds: NDArray[np.float64],
    alignment: Alignment,
    asked: NDArray[np.int64] | None = None,
) -> DecodeError | None:
    """Return why moments and frames do not go together one by one; None where they do.

    Args:
        reference: What the moments are.
        cameras: The reference, and another one.
        frames: int64 [moments]: the frame of the other; `MISSING` where there is none.
        seconds: When the frames of the other were taken, on the common clock.
        alignment: What belongs together.
        asked: int64: the moments that are asked for; None means all.
    """
    first, other = cameras
    sync, tolerance_ms = alignment.sync, alignment.tolerance_ms
    length = len(reference.seconds)
    every = np.arange(length) if asked is None else asked
    by_time = _by_time(reference, first, other) if sync == "index" else ", or raise tolerance_ms"
    what = f"{_POLICIES}{by_time}"
    without = every[frames[every] == MISSING]
    if len(without):
        moment = int(without[0])
        if sync == "index":
            found = f"it has {len(other)} frames, {reference.name} {length}"
        else:
            found = _nothing_near(seconds - reference.seconds[moment], tolerance_ms, sync)
        return DecodeError(
            f"{other.source} has no frame for {len(without)} of {len(every)} moments, the first is "
            f"frame {moment} of {reference.name}: {found}; {what}",
            source=str(other.source),
            pts=None if reference.place is None else int(first.pts[moment]),
            missing=[moment],
        )
    if sync == "index" and len(other) > length:
        return DecodeError(
            f"{first.source} ends after {length} frames, {other.source} has {len(other)}; {what}",
            source=str(first.source),
            pts=int(first.pts[-1]),
        )
    return None


def no_moment_left(first: StreamIndex, moments: int) -> DecodeError:
    """Return why a clip is left out of whose `moments` none has a frame of every camera."""
    if not moments:
        return DecodeError(
            f"{first.source}: it has none of the moments that are asked for; look at moments=",
            source=str(first.source),
        )
    return DecodeError(
        f"{first.source}: none of its {moments} moments has a frame of every camera; look at the "
        "clocks, or raise the tolerance",
        source=str(first.source),
    )


def _nothing_near(apart: NDArray[np.float64], tolerance_ms: float, sync: Sync) -> str:
    """Return what there is instead; `apart`: seconds from the moment to each frame."""
    which = "nearest"
    if sync == "previous":
        which, apart = "latest earlier", apart[apart <= 0]
        if not len(apart):
            return "it has none before"
    gap = np.abs(apart).min() * 1000
    return f"its {which} frame is {gap:.1f} ms away, {tolerance_ms:g} are tolerated"


def _by_time(reference: Reference, first: StreamIndex, other: StreamIndex) -> str:
    """Return what is to be done besides, where cameras have frame rates of their own."""
    rates = first.frame_rate, other.frame_rate
    if max(rates) * 100 <= min(rates) * 101:
        return ""
    theirs, its = (f"{float(rate):.3g}" for rate in rates)
    return (
        f"; or, as it has {its} frames/s and {reference.name} {theirs}, align them by time with "
        "sync='nearest' or 'previous'"
    )
