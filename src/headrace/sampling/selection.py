"""Selection of a video's frames: by rate, every n-th, keyframes, or at given times."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.units import check_integers
from headrace.video.frames_played import grid_bounds
from headrace.video.stream_index import StreamIndex
from headrace.video.timebase import to_ticks


@dataclass(frozen=True)
class ByRate:
    """Frames shown at multiples of 1 / rate after the first frame's time.

    A frame shown at several of these times is selected once, so a rate above the video's selects
    every frame. Exact, also for unevenly spaced frames.
    """

    rate: Fraction
    """Frames per second of media time."""

    def __post_init__(self) -> None:
        if self.rate <= 0:
            raise ConfigError(f"a rate must be > 0 frames per second, got {self.rate}")

    def __str__(self) -> str:
        return f"fps {self.rate}"

    def of(self, index: StreamIndex) -> NDArray[np.int64]:
        """Return the indices, int64 [N], ascending."""
        step = 1 / (self.rate * index.info.time_base)
        # As Python integers: ticks times the parts of an odd rate do not fit 64 bits.
        first, *later = grid_bounds(index).tolist()
        moments = [-((first - tick) * step.denominator // step.numerator) for tick in later]
        return np.flatnonzero(np.diff(np.array([0, *moments], object)) > 0).astype(np.int64)


@dataclass(frozen=True)
class EveryNth:
    """Frames 0, step, 2 step, ...; a step of 1 selects every frame."""

    step: int

    def __post_init__(self) -> None:
        check_integers(1, every=self.step)

    def __str__(self) -> str:
        return f"every {self.step}"

    def of(self, index: StreamIndex) -> NDArray[np.int64]:
        """Return the indices, int64 [N], ascending."""
        return np.arange(0, len(index), self.step, dtype=np.int64)


@dataclass(frozen=True)
class Keyframes:
    """Keyframes, at which decoding can start; they cost least to decode."""

    def __str__(self) -> str:
        return "keyframes"

    def of(self, index: StreamIndex) -> NDArray[np.int64]:
        """Return the indices, int64 [N], ascending."""
        return np.flatnonzero(index.is_keyframe).astype(np.int64)


@dataclass(frozen=True)
class AtTimes:
    """Frames shown at given times; a frame shown at two of them is selected once.

    Times are presentation times, as printed in reports. Times before the first frame select the
    first, as in a player.
    """

    seconds: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        if not self.seconds or min(self.seconds) < 0:
            raise ConfigError(f"times must be >= 0 seconds, at least one, got {self}")

    def __str__(self) -> str:
        return "at " + ",".join(map(str, self.seconds))

    def of(self, index: StreamIndex) -> NDArray[np.int64]:
        """Return the indices, int64 [N], ascending.

        Raises:
            ConfigError: a time is at or after the end of the video.
        """
        time_base = index.info.time_base
        end = (int(index.pts[-1]) + max(1, int(index.duration[-1]))) * time_base
        late = [time for time in self.seconds if time >= end]
        if late:
            raise ConfigError(
                f"{index.source} shows nothing at {float(late[0]):g} s: it runs from "
                f"{index.seconds(0):.3f} s to {float(end):.3f} s; ask for earlier times"
            )
        indices = {index.index_at(to_ticks(time, time_base)) for time in self.seconds}
        return np.array(sorted(indices), np.int64)


Selection = ByRate | EveryNth | Keyframes | AtTimes


def selection_of(text: str) -> Selection:
    """Parse a selection from the text that `str` of a selection returns.

    Raises:
        ConfigError: the text is not a selection.
    """
    kind, _, value = text.partition(" ")
    try:
        match kind:
            case "fps":
                return ByRate(Fraction(value))
            case "every":
                return EveryNth(int(value))
            case "keyframes":
                return Keyframes()
            case "at":
                return AtTimes(tuple(map(Fraction, value.split(","))))
    except (ValueError, ZeroDivisionError) as error:
        raise ConfigError(f"{text!r} is no selection of frames: {error}") from error
    raise ConfigError(f"{text!r} is no selection of frames; write one such as 'every 30'")
