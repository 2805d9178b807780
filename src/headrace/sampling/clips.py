"""Samplers of clips: at random places, and evenly spaced."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.sampling.boundary import Boundary, clip_span
from headrace.sampling.feistel import Feistel
from headrace.sampling.order import Order
from headrace.sampling.population import Population
from headrace.sampling.random import Draws, Purpose
from headrace.sampling.sampler import SamplerTraits, SamplerUse

EachOnce = Literal["videos", "starts"]
"""What comes exactly once in an epoch of random clips."""


@dataclass(frozen=True, kw_only=True)
class RandomClips:
    """Clips at random places; an order of them delivers int64 [n, num_frames] frame ids.

    Clips are uniform, single frames are not: where clips must lie inside their video, a frame
    t < span - 1 frames from its start or end is in t // stride + 1 clips instead of num_frames.
    With another `boundary` every frame is the start of a clip.
    """

    num_frames: int
    stride: int = 1
    """1 means consecutive."""
    temporal_jitter: int = 0
    """Each frame moves forward by an integer uniform in [0, temporal_jitter], drawn for itself; at
    most stride - 1, so that frames stay in order."""
    each_once: EachOnce = "videos"
    """`videos`: an epoch takes each video once, at a uniform start. `starts`: it takes each
    possible start once, so long videos give more clips."""
    boundary: Boundary = "error"
    """`error`: clips lie inside their video. `repeat_last` or `wrap`: a clip may start at any frame
    and does this at the end."""
    seed: int = 0

    def __post_init__(self) -> None:
        _check(self.num_frames, self.stride, self.boundary)
        if not 0 <= self.temporal_jitter < self.stride:
            raise ConfigError(
                f"temporal_jitter must be at least 0 and below the stride, {self.stride}, "
                f"got {self.temporal_jitter}"
            )
        if self.each_once not in get_args(EachOnce):
            raise ConfigError(
                f"each_once must be one of {', '.join(get_args(EachOnce))}, got {self.each_once!r}"
            )

    @property
    def frames_needed(self) -> int:
        """Frames that a video must have."""
        span = clip_span(self.num_frames, self.stride) + self.temporal_jitter
        return span if self.boundary == "error" else 1

    @property
    def traits(self) -> SamplerTraits:
        """Clips, each video or each start once an epoch."""
        return SamplerTraits(
            identity=repr(self),
            is_random=True,
            has_replacement=False,
            num_frames=self.num_frames,
            seed=self.seed,
            frames_needed=self.frames_needed,
        )

    def adapt(self, use: SamplerUse) -> Self:
        """Return this with the seed asked for."""
        return replace(self, seed=use.seed_for(self.seed))

    def order(self, population: Population, epoch: int) -> Order:
        """Return the order of one epoch: as many slots as videos, or as starts.

        Raises:
            ConfigError: a video is shorter than a clip, and `boundary` is `error`.
        """
        starts = _starts_per_video(self, population)
        ends = np.cumsum(starts)
        is_by_video = self.each_once == "videos"
        shuffle = Feistel(
            size=population.num_videos if is_by_video else int(ends[-1]),
            draws=self._draws(epoch, Purpose.SHUFFLE),
        )
        start_draws = self._draws(epoch, Purpose.START)
        jitter_draws = self._draws(epoch, Purpose.JITTER)

        def frames_at(slots: NDArray[np.int64]) -> NDArray[np.int64]:
            place = shuffle.at(slots)
            if is_by_video:
                video, start = place, start_draws.integers(slots, starts[place])
            else:
                video = np.searchsorted(ends, place, "right")
                start = place - (ends - starts)[video]
            numbers = slots[:, None] * self.num_frames + np.arange(self.num_frames)
            jitter = jitter_draws.integers(numbers, self.temporal_jitter + 1)
            return _clips(self, population, video, start, jitter)

        return Order(length=len(shuffle), frames_at=frames_at)

    def _draws(self, epoch: int, purpose: Purpose) -> Draws:
        return Draws(seed=self.seed, epoch=epoch, purpose=purpose)


@dataclass(frozen=True, kw_only=True)
class UniformClips:
    """`num_clips` evenly spaced clips of each video, video after video; each epoch alike.

    The possible starts of a video are cut into `num_clips` equal parts, and a clip starts in the
    middle of each: one clip is the middle one. A video with fewer starts gives some clips twice.
    An order delivers int64 [n, num_frames] frame ids.
    """

    num_clips: int
    num_frames: int
    stride: int = 1
    """1 means consecutive."""
    boundary: Boundary = "error"
    """As for `RandomClips`."""

    def __post_init__(self) -> None:
        _check(self.num_frames, self.stride, self.boundary)
        if self.num_clips < 1:
            raise ConfigError(f"num_clips must be >= 1, got {self.num_clips}")

    @property
    def frames_needed(self) -> int:
        """Frames that a video must have."""
        return clip_span(self.num_frames, self.stride) if self.boundary == "error" else 1

    @property
    def traits(self) -> SamplerTraits:
        """Clips, in an order without chance."""
        return SamplerTraits(
            identity=repr(self),
            is_random=False,
            has_replacement=False,
            num_frames=self.num_frames,
            frames_needed=self.frames_needed,
        )

    def order(self, population: Population, epoch: int) -> Order:
        """Return the order, the same for every epoch: num_clips slots for each video.

        Raises:
            ConfigError: a video is shorter than a clip, and `boundary` is `error`.
        """
        starts = _starts_per_video(self, population)

        def frames_at(slots: NDArray[np.int64]) -> NDArray[np.int64]:
            video, number = np.divmod(slots, self.num_clips)
            start = (2 * number + 1) * starts[video] // (2 * self.num_clips)
            return _clips(self, population, video, start, np.zeros_like(slots[:, None]))

        return Order(length=self.num_clips * population.num_videos, frames_at=frames_at)


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
            f"(and {too_short - 1} more are too short): ask for fewer frames, leave "
            "those videos out, or choose boundary 'repeat_last' or 'wrap'"
        )


def _check(num_frames: int, stride: int, boundary: Boundary) -> None:
    for name, value in (("num_frames", num_frames), ("stride", stride)):
        if value < 1:
            raise ConfigError(f"{name} must be >= 1, got {value}")
    if boundary not in get_args(Boundary):
        raise ConfigError(
            f"boundary must be one of {', '.join(get_args(Boundary))}, got {boundary!r}"
        )


def _starts_per_video(
    clips: RandomClips | UniformClips, population: Population
) -> NDArray[np.int64]:
    """Return how many frames of each video a clip can start at: int64 [videos], at least 1."""
    lengths = population.frames_per_video
    check_lengths(clips.frames_needed, lengths, "video {}".format)
    return lengths - clips.frames_needed + 1


def _clips(
    shape: RandomClips | UniformClips,
    population: Population,
    video: NDArray[np.int64],
    start: NDArray[np.int64],
    jitter: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the frame ids of clips, int64 [n, num_frames]; `clip_indices` row by row, shifted."""
    length = population.frames_per_video[video][:, None]
    reachable = (length - 1 - start[:, None]) // shape.stride + 1
    step = np.arange(shape.num_frames)
    step = step % reachable if shape.boundary == "wrap" else np.minimum(step, reachable - 1)
    index = start[:, None] + step * shape.stride
    shift = np.take_along_axis(np.broadcast_to(jitter, step.shape), step, axis=1)
    return population.frame_ids(video[:, None], np.minimum(index + shift, length - 1))
