"""Shape of a clip: its frames from a given start, and the possible starts."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headrace.cached_property import cached_property
from headrace.errors import ConfigError
from headrace.sampling.population import Population, Seconds, seconds_of
from headrace.units import check_counts, check_integers, one_of
from headrace.video.timebase import exact_number, format_rate

Boundary = Literal["error", "repeat_last", "wrap"]
"""Rule for a clip that reaches beyond its video: raise, repeat its last frame, or restart at its
first."""


def clip_span(num_frames: int, stride: int) -> int:
    """Return the number of consecutive frames that a clip spans: (num_frames - 1) * stride + 1."""
    return (num_frames - 1) * stride + 1


def clip_indices(
    total: int, start: int, num_frames: int, stride: int, boundary: Boundary = "error"
) -> NDArray[np.int64]:
    """Return the indices start, start + stride, ... of a clip, int64 [num_frames].

    `total` is the number of frames of the video. `repeat_last` repeats the clip's last index inside
    the video; `wrap` restarts at `start`.

    Raises:
        ConfigError: an argument is out of range, or the video ends early and `boundary` is `error`.
    """
    one_of(Boundary, boundary=boundary)
    check_integers(1, num_frames=num_frames, stride=stride)
    if not (isinstance(start, int | np.integer) and 0 <= start < total):
        raise ConfigError(
            f"start must be a frame of the video, from 0 to {total - 1}, got {start!r}"
        )
    steps = np.arange(num_frames, dtype=np.int64)
    reachable = (total - 1 - start) // stride + 1
    if num_frames <= reachable:
        return start + steps * stride
    if boundary == "repeat_last":
        return start + np.minimum(steps, reachable - 1) * stride
    if boundary == "wrap":
        return start + (steps % reachable) * stride
    raise ConfigError(
        f"{num_frames} frames at stride {stride} from frame {start} need "
        f"{start + clip_span(num_frames, stride)} frames, the video has {total}: "
        f"{reachable} are possible; ask for fewer, or for boundary 'repeat_last' or 'wrap'"
    )


ClipBoundary = Boundary | Literal["skip", "pad"]
"""Rule for a video that is shorter than a clip, and for a clip at the end of its video.

- `error`: clips are inside their video; a too short video is an error.
- `skip`: clips are inside their video; a too short video is skipped.
- `pad`: clips are inside their video; a too short video has one clip, from its first frame, with
  its last frame repeated.
- `repeat_last`, `wrap`: a clip may start at any frame; after the end of the video it repeats its
  last frame, or restarts at its first.
"""

BOUNDARIES = ("error", "skip", "pad", "repeat_last", "wrap")

MOST_FRAMES = 2**20
"""Max frames of a clip, and max stride in frames."""

_INSIDE = ("error", "skip", "pad")
"""Boundaries with which clips are inside a video that is long enough."""


@dataclass(frozen=True)
class ClipShape:
    """Shape of a clip: `num_frames` frames, `stride` frames or 1 / `fps` seconds apart.

    Raises:
        ConfigError: a number is out of range, or both `stride` and `fps` are given.
    """

    num_frames: int
    stride: int
    """1: consecutive frames."""
    fps: float | str | Fraction | None
    """Frames per second of media time; None: frames are `stride` apart."""
    boundary: ClipBoundary
    temporal_jitter: int = 0
    """Max frames by which each frame may move forward."""

    def __post_init__(self) -> None:
        check_counts(1, MOST_FRAMES, num_frames=self.num_frames, stride=self.stride)
        check_counts(0, MOST_FRAMES, temporal_jitter=self.temporal_jitter)
        one_of(BOUNDARIES, boundary=self.boundary)
        if self.rate is None:
            return
        if self.rate <= 0:
            raise ConfigError(f"fps must be above 0, got {self.fps}")
        if self.stride != 1:
            raise ConfigError(
                f"fps={self.fps} and stride={self.stride} exclude each other; leave out one"
            )
        seconds_of("frames of a clip", ((self.num_frames - 1) / self.rate,))

    @cached_property
    def rate(self) -> Fraction | None:
        """`fps` as an exact fraction."""
        return None if self.fps is None else exact_number("fps", self.fps)

    @cached_property
    def frames_needed(self) -> int:
        """Min frames of a video, if it is known without frame times; otherwise 1."""
        is_counted = self.boundary == "error" and self.fps is None
        return self._span if is_counted else 1

    def starts(self, population: Population) -> NDArray[np.int64]:
        """Return the number of possible starts of each video, int64 [videos].

        The starts are its first frames; a too short video that is skipped has 0. With `fps` it
        takes a few microseconds per video.

        Raises:
            ConfigError: a video is too short and `boundary` is `error`, or all are and it is
                `skip`; or, with `fps`, the population has no times.
        """
        lengths = population.frames_per_video
        if self.fps is None:
            starts = np.maximum(lengths - self._span + 1, 0)
        else:
            times, seconds = population.timed(), self._seconds
            starts = np.array([video.num_starts(seconds) for video in times], np.int64)
        if self.boundary not in _INSIDE:
            return lengths
        if self.boundary == "pad":
            return np.maximum(starts, 1)
        short = np.flatnonzero(starts == 0)
        if len(short) and (self.boundary == "error" or len(short) == len(starts)):
            self._raise_too_short(population, short)
        return starts

    def clips(
        self,
        population: Population,
        video: NDArray[np.int64],
        start: NDArray[np.int64],
        jitter: NDArray[np.int64] | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the frame ids of clips, int64 [n, T], and which are repeated, bool [n, T].

        Args:
            population: The frames of all videos.
            video: int64 [n]: video of each clip.
            start: int64 [n]: index of the first frame of each clip, before jitter.
            jitter: int64 [n, T]: frames by which each frame moves forward; None: no jitter.
        """
        if self.fps is None:
            index, reachable = self._strided(population, video, start)
        else:
            index, is_outside = population.shown_after(video, start, self._seconds)
            reachable = (~is_outside).sum(axis=1)
        if jitter is not None:
            index = np.minimum(index + jitter, population.frames_per_video[video][:, None] - 1)
        step = np.arange(self.num_frames)
        reachable = reachable[:, None]
        is_pad = step >= reachable
        step = step % reachable if self.boundary == "wrap" else np.minimum(step, reachable - 1)
        index = np.take_along_axis(index, step, axis=1)
        return population.frame_ids(video[:, None], index), is_pad

    @property
    def has_pads(self) -> bool:
        """Whether a clip may have repeated frames."""
        return self.boundary not in ("error", "skip")

    @property
    def _span(self) -> int:
        return clip_span(self.num_frames, self.stride) + self.temporal_jitter

    @cached_property
    def _seconds(self) -> Seconds:
        assert self.rate is not None
        return tuple(number / self.rate for number in range(self.num_frames))

    def _strided(
        self, population: Population, video: NDArray[np.int64], start: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the index of each frame, int64 [n, T], and the number in the video, int64 [n]."""
        reachable = (population.frames_per_video[video] - 1 - start) // self.stride + 1
        index = start[:, None] + np.arange(self.num_frames) * self.stride
        return index, np.minimum(reachable, self.num_frames)

    def _raise_too_short(self, population: Population, short: NDArray[np.int64]) -> None:
        if self.fps is None:
            check_lengths(self._span, population.frames_per_video, population.name)
        times = population.timed()
        video = min(short.tolist(), key=lambda index: times[index].seconds)
        raise ConfigError(
            f"a clip of {self.num_frames} frames at {format_rate(self.rate)} fps takes "
            f"{float(self._seconds[-1]):.3f} s, {population.name(video)} has "
            f"{float(times[video].seconds):.3f} s{_advice(len(short) - 1)}"
        )


def check_lengths(
    frames_needed: int, lengths: NDArray[np.int64], name: Callable[[int], str]
) -> None:
    """Check that every video is long enough for a clip.

    Args:
        frames_needed: Min frames of a video.
        lengths: int64 [videos]: frames of each video.
        name: Returns the name of the video at an index of `lengths`.

    Raises:
        ConfigError: a video is too short; names the shortest.
    """
    too_short = int((lengths < frames_needed).sum())
    if too_short:
        video = int(lengths.argmin())
        raise ConfigError(
            f"a clip needs {frames_needed} frames, {name(video)} has {lengths[video]}"
            f"{_advice(too_short - 1)}"
        )


def _advice(others: int) -> str:
    more = f" (and {others} more are too short)" if others else ""
    return (
        f"{more}: ask for fewer frames, leave those videos out, or "
        "choose boundary 'skip', 'pad', 'repeat_last' or 'wrap'"
    )
