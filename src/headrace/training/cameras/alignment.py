"""Alignment: which frames of several cameras belong together, as it is asked for."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.sampling.alignment import OnMissing, Sync
from headrace.sizes import check_numbers, is_number, one_of
from headrace.training.cameras.camera_times import CameraTimes
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
