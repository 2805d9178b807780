"""Alignment: assignment of the frames of several cameras to moments."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.loaders.cameras.camera_times import CameraTimes
from headrace.sampling.moments import OnMissing, Sync
from headrace.units import check_numbers, is_number, one_of
from headrace.video.camera_layout import CameraLayout

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
