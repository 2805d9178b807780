"""ClipShape: which frames a clip has that starts at a given one, and where clips can start."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.sampling.frame_times import Seconds, seconds_of
from headrace.sampling.population import Population
from headrace.units import check_counts, check_integers, one_of
from headrace.video.timebase import exact_number, format_rate

Boundary = Literal["error", "repeat_last", "wrap"]
"""What a clip does where the video ends: refuse, repeat its own last frame, or start again."""


def clip_span(num_frames: int, stride: int) -> int:
    """Return how many consecutive frames a clip reaches over: (num_frames - 1) * stride + 1."""
    return (num_frames - 1) * stride + 1


def clip_indices(
    total: int, start: int, num_frames: int, stride: int, boundary: Boundary = "error"
) -> NDArray[np.int64]:
    """Return the indices start, start + stride, ... of a clip, int64 [num_frames].

    `total` is the number of frames of the video. `repeat_last` repeats the last index of the clip
    that exists; `wrap` takes indices modulo the frames the clip can reach, so it starts again at
    `start`.

    Raises:
        ConfigError: an argument is out of range, or the video ends early and `boundary` is `error`.
    """
    one_of(Boundary, boundary=boundary)
    check_integers(1, num_frames=num_frames, stride=stride)
    is_whole = isinstance(start, int | np.integer)
    if not (is_whole and 0 <= start < total):
        raise ConfigError(
            f"start must be a frame of the video, which has {total} frames "
            f"(0 to {total - 1}), got {start!r}"
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
"""What a video does that is shorter than a clip, and a clip where its video ends.

- `error`: clips lie inside their video, and one that is too short is refused.
- `skip`: the same, and one that is too short is left out.
- `pad`: the same, and one that is too short gives the clip from its first frame, whose last frame
  is repeated.
- `repeat_last`, `wrap`: a clip may start at any frame, and repeats its last frame where the video
  ends, or starts again.
"""

BOUNDARIES = ("error", "skip", "pad", "repeat_last", "wrap")

MOST_FRAMES = 2**20
"""In a clip, and from one frame of it to the next."""

_INSIDE = ("error", "skip", "pad")
"""Boundaries with which a clip lies inside a video that is long enough."""


@dataclass(frozen=True, kw_only=True)
class ClipShape:
    """`num_frames` frames, `stride` frames or 1 / `fps` seconds apart."""

    num_frames: int
    stride: int
    """1 means consecutive."""
    fps: Fraction | None
    """Frames per second of media time; None: frames are counted, by `stride`."""
    boundary: ClipBoundary
    temporal_jitter: int = 0
    """Frames that each may move forward at most."""

    @classmethod
    def of(
        cls,
        num_frames: int,
        stride: int,
        fps: float | str | Fraction | None,
        boundary: ClipBoundary,
        temporal_jitter: int = 0,
    ) -> "ClipShape":
        """Return the shape that was asked for.

        Raises:
            ConfigError: a number is out of range, or both `stride` and `fps` are given.
        """
        check_counts(1, MOST_FRAMES, num_frames=num_frames, stride=stride)
        check_counts(0, MOST_FRAMES, temporal_jitter=temporal_jitter)
        one_of(BOUNDARIES, boundary=boundary)
        rate = None if fps is None else exact_number("fps", fps)
        if rate is not None:
            if rate <= 0:
                raise ConfigError(f"fps must be above 0, got {fps}")
            if stride != 1:
                raise ConfigError(
                    f"frames are apart by fps={fps} or by stride={stride}, not by both; "
                    "leave out one"
                )
            seconds_of("frames of a clip", ((num_frames - 1) / rate,))
        return cls(
            num_frames=num_frames,
            stride=stride,
            fps=rate,
            boundary=boundary,
            temporal_jitter=temporal_jitter,
        )

    @cached_property
    def frames_needed(self) -> int:
        """Frames that a video must have, as far as it can be told without its times."""
        is_counted = self.boundary == "error" and self.fps is None
        return self._span if is_counted else 1

    def starts(self, population: Population) -> NDArray[np.int64]:
        """Return how many frames of each video a clip can start at, the first ones: int64 [videos].

        0 for one that is too short, and is to be skipped. By time, it costs some microseconds a
        video.

        Raises:
            ConfigError: a video is too short, and that is an error; or all are, and are to be
                skipped; or its times are not known.
        """
        lengths = population.frames_per_video
        if self.fps is None:
            starts = np.maximum(lengths - self._span + 1, 0)
        else:
            times, seconds = population.timed(), self._seconds
            starts = np.array([each.num_starts(seconds) for each in times], np.int64)
        if self.boundary not in _INSIDE:
            return lengths
        if self.boundary == "pad":
            return np.maximum(starts, 1)
        short = np.flatnonzero(starts == 0)
        if len(short) and (self.boundary == "error" or len(short) == len(starts)):
            self._refuse(population, short)
        return starts

    def clips(
        self,
        population: Population,
        video: NDArray[np.int64],
        start: NDArray[np.int64],
        jitter: NDArray[np.int64] | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the frame ids of clips and which frames are repeated, int64 and bool [n, T].

        Args:
            population: The frames of all videos.
            video: int64 [n].
            start: int64 [n]: index of the first frame of each clip, before it is moved.
            jitter: int64 [n, T]: by how much each frame is moved forward.
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
        """Whether a clip may repeat frames that its video does not have."""
        return self.boundary not in ("error", "skip")

    @property
    def _span(self) -> int:
        return clip_span(self.num_frames, self.stride) + self.temporal_jitter

    @cached_property
    def _seconds(self) -> Seconds:
        assert self.fps is not None
        return tuple(number / self.fps for number in range(self.num_frames))

    def _strided(
        self, population: Population, video: NDArray[np.int64], start: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the index of each frame, int64 [n, T], and how many the video has, int64 [n]."""
        reachable = (population.frames_per_video[video] - 1 - start) // self.stride + 1
        index = start[:, None] + np.arange(self.num_frames) * self.stride
        return index, np.minimum(reachable, self.num_frames)

    def _refuse(self, population: Population, short: NDArray[np.int64]) -> None:
        if self.fps is None:
            check_lengths(self._span, population.frames_per_video, population.name)
        times = population.timed()
        video = min(short.tolist(), key=lambda each: times[each].seconds)
        raise ConfigError(
            f"a clip of {self.num_frames} frames at {format_rate(self.fps)} fps takes "
            f"{float(self._seconds[-1]):.3f} s, {population.name(video)} shows "
            f"{float(times[video].seconds):.3f} s {_advice(len(short) - 1)}"
        )


def check_lengths(
    frames_needed: int, lengths: NDArray[np.int64], name: Callable[[int], str]
) -> None:
    """Check that no video is too short for its clips.

    Args:
        frames_needed: Frames that each must have.
        lengths: int64 [videos]: frames of each.
        name: What to call a video, by its place in `lengths`.

    Raises:
        ConfigError: one is; names the shortest.
    """
    too_short = int((lengths < frames_needed).sum())
    if too_short:
        video = int(lengths.argmin())
        raise ConfigError(
            f"a clip needs {frames_needed} frames, {name(video)} has {lengths[video]} "
            f"{_advice(too_short - 1)}"
        )


def _advice(others: int) -> str:
    return (
        f"(and {others} more are too short): ask for fewer frames, leave those videos out, or "
        "choose boundary 'skip', 'pad', 'repeat_last' or 'wrap'"
    )
