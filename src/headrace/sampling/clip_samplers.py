"""Clip samplers: random starts, evenly spaced starts, and segments."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from headrace.argument_names import answers_names
from headrace.errors import ConfigError
from headrace.sampling.clip_shape import MOST_FRAMES, ClipBoundary, ClipShape, clip_span
from headrace.sampling.counter_rng import CounterRng, Feistel, RngStream
from headrace.sampling.population import Population
from headrace.sampling.sampler import EpochOrder, SamplerContext, SamplerTraits, identity_of
from headrace.sampling.sampling_weights import (
    VideoOrder,
    Weights,
    checked_weights,
    opened_weights,
    weights_in_order,
)
from headrace.units import check_counts, one_of

EachOnce = Literal["videos", "starts"]
"""Items that an epoch of random clips has exactly once: videos, or possible starts of clips."""


@answers_names
@dataclass(frozen=True, kw_only=True)
class RandomClips:
    """Clips at random starts; an order returns frame ids, int64 [n, num_frames].

    Clips are uniform, single frames are not: if clips must be inside their video, a frame
    t < span - 1 frames from its start or end is in t // stride + 1 clips instead of num_frames.
    With `repeat_last` or `wrap` every frame is the start of a clip.

    With `fps`, clips have the same duration in every video, for any frame rate. A clip starts at a
    frame, and its frame k is the one shown k / fps seconds later (`FrameTimes` defines when a frame
    is shown). The clip is inside its video if a frame is shown at all these times.
    """

    num_frames: int
    stride: int = 1
    """Distance of consecutive frames; 1: consecutive frames of the video."""
    fps: Fraction | float | str | None = None
    """Frames per second of media time, instead of a stride: 8, 12.5, "30000/1001"."""
    temporal_jitter: int = 0
    """Max random shift of each frame: it moves forward by an integer drawn uniformly from
    [0, temporal_jitter]. At most stride - 1, so that frames stay in order."""
    each_once: EachOnce = "videos"
    """`videos`: an epoch has one clip per video, at a uniform start. `starts`: an epoch has one
    clip per possible start, so long videos have more clips."""
    boundary: ClipBoundary = "error"
    """`error`: clips are inside their video, and no video may be too short. `skip`: too short
    videos are skipped. `pad`: a too short video has one clip, from its first frame, with its last
    frame repeated. `repeat_last`, `wrap`: a clip may start at any frame; after the end of the video
    it repeats the clip's last frame, or restarts at the clip's first. Repeated frames are marked in
    `Batch.is_pad`."""
    weights: Weights | None = None
    """Relative frequency of each video: an epoch has clips of it in proportion, rounded up or down.
    None: one clip per video. `Manifest.weights` and `Manifest.balanced` return weights."""
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "fps", self.shape.rate)
        if self.weights is not None:
            object.__setattr__(self, "weights", checked_weights(self.weights))
        if not 0 <= self.temporal_jitter < self.stride:
            raise ConfigError(
                f"temporal_jitter must be at least 0 and below the stride, {self.stride}, "
                f"got {self.temporal_jitter}"
            )
        if self.each_once not in get_args(EachOnce):
            raise ConfigError(
                f"each_once must be one of {', '.join(get_args(EachOnce))}, got {self.each_once!r}"
            )
        if self.weights is not None and self.each_once != "videos":
            raise ConfigError(
                "weights set the frequency of videos, but each_once='starts' has each start "
                "once; leave out one"
            )

    @property
    def shape(self) -> ClipShape:
        """Shape of a clip: the offsets of its frames."""
        return ClipShape(
            self.num_frames, self.stride, self.fps, self.boundary, self.temporal_jitter
        )

    @property
    def traits(self) -> SamplerTraits:
        """Traits: clips, in random order."""
        return SamplerTraits(
            identity=identity_of(self),
            is_random=True,
            has_replacement=False,
            num_frames=self.num_frames,
            seed=self.seed,
            frames_needed=self.shape.frames_needed,
        )

    def bind(self, context: SamplerContext) -> Self:
        """Return the sampler with the requested seed and the weights of the opened videos."""
        weights = opened_weights(self.weights, context)
        return replace(self, seed=context.seed_for(self.seed), weights=weights)

    def order(self, population: Population, epoch: int) -> EpochOrder:
        """Return the order of one epoch: one slot per video, or per start.

        Raises:
            ConfigError: a video is too short and `boundary` is `error`, or all are and it is
                `skip`; or, with `fps`, the population has no times.
        """
        shape = self.shape
        starts = shape.starts(population)
        by_video = self.each_once == "videos"
        clips = self._clips_by_video if by_video else self._clips_by_start
        length, locate = clips(starts, epoch)
        jitter_draws = CounterRng(self.seed, epoch, RngStream.JITTER)

        def clips_at(slots: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
            video, start = locate(slots)
            numbers = slots[:, None] * self.num_frames + np.arange(self.num_frames)
            jitter = jitter_draws.integers(numbers, self.temporal_jitter + 1)
            return shape.clips(population, video, start, jitter if self.temporal_jitter else None)

        return EpochOrder.of_clips(
            length, clips_at, has_pads=shape.has_pads, too_short=_too_short(starts)
        )

    def _clips_by_video(
        self, starts: NDArray[np.int64], epoch: int
    ) -> tuple[int, Callable[[NDArray[np.int64]], tuple[NDArray[np.int64], NDArray[np.int64]]]]:
        """Return the number of slots of an epoch, and a function slots -> (video, start)."""
        weights = _in_order(self.weights, len(starts))
        videos = VideoOrder.shuffled(np.flatnonzero(starts), weights, seed=self.seed, epoch=epoch)
        draws = CounterRng(self.seed, epoch, RngStream.START)

        def locate(slots: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
            video = videos.at(slots)
            return video, draws.integers(slots, starts[video])

        return videos.length, locate

    def _clips_by_start(
        self, starts: NDArray[np.int64], epoch: int
    ) -> tuple[int, Callable[[NDArray[np.int64]], tuple[NDArray[np.int64], NDArray[np.int64]]]]:
        """Return the number of slots of an epoch, and a function slots -> (video, start)."""
        ends = np.cumsum(starts)
        draws = CounterRng(self.seed, epoch, RngStream.SHUFFLE)
        shuffle = Feistel(size=int(ends[-1]), draws=draws)

        def locate(slots: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
            start = shuffle.at(slots)
            video = np.searchsorted(ends, start, "right")
            return video, start - (ends - starts)[video]

        return len(shuffle), locate


@answers_names
@dataclass(frozen=True, kw_only=True)
class UniformClips:
    """`num_clips` evenly spaced clips per video, video after video, the same in every epoch.

    The possible starts of a video are cut into `num_clips` equal parts, and a clip starts in the
    middle of each; a single clip is the middle one. A video with fewer starts has some clips twice.
    An order returns frame ids, int64 [n, num_frames].
    """

    num_clips: int
    num_frames: int
    stride: int = 1
    """Distance of consecutive frames; 1: consecutive frames of the video."""
    fps: Fraction | float | str | None = None
    """As for `RandomClips`."""
    boundary: ClipBoundary = "error"
    """As for `RandomClips`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "fps", self.shape.rate)
        check_counts(1, MOST_FRAMES, num_clips=self.num_clips)

    @property
    def shape(self) -> ClipShape:
        """Shape of a clip: the offsets of its frames."""
        return ClipShape(self.num_frames, self.stride, self.fps, self.boundary)

    @property
    def traits(self) -> SamplerTraits:
        """Traits: clips, in a fixed order."""
        return SamplerTraits(
            identity=identity_of(self),
            is_random=False,
            has_replacement=False,
            num_frames=self.num_frames,
            frames_needed=self.shape.frames_needed,
        )

    def order(self, population: Population, epoch: int) -> EpochOrder:
        """Return the order, the same for every epoch: num_clips slots per video.

        Raises:
            ConfigError: as for `RandomClips.order`.
        """
        shape = self.shape
        starts = shape.starts(population)
        videos = np.flatnonzero(starts)

        def clips_at(slots: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
            position, number = np.divmod(slots, self.num_clips)
            video = videos[position]
            start = (2 * number + 1) * starts[video] // (2 * self.num_clips)
            return shape.clips(population, video, start)

        return EpochOrder.of_clips(
            self.num_clips * len(videos),
            clips_at,
            has_pads=shape.has_pads,
            too_short=_too_short(starts),
        )


def _in_order(weights: Weights | None, num_videos: int) -> NDArray[np.float64] | None:
    return None if weights is None else weights_in_order(weights, num_videos)


def _too_short(starts: NDArray[np.int64]) -> tuple[int, ...]:
    return tuple(np.flatnonzero(starts == 0).tolist())


Place = Literal["random", "middle", "ends"]
"""Position of the frame in each segment of a video."""


@answers_names
@dataclass(frozen=True, kw_only=True)
class SegmentClips:
    """One clip per video, with `num_segments` frames spread over its duration.

        SegmentClips(num_segments=8)  # temporal segment networks, for training
        SegmentClips(num_segments=8, place="middle", shuffle=False)  # and for evaluation
        SegmentClips(num_segments=64, place="ends")  # as for video language models

    The duration of a video is cut into `num_segments` equal segments, and the clip has the frame
    shown at one time in each. A clip of a video with fewer frames has some of them twice. An order
    returns frame ids, int64 [n, num_segments * frames_per_segment].
    Source: Wang et al., "Temporal segment networks", ECCV 2016.
    """

    num_segments: int
    frames_per_segment: int = 1
    """Frames of each segment, `stride` apart, shifted to be inside the video; a too short video
    repeats its last frame, marked in `Batch.is_pad`."""
    stride: int = 1
    """Distance of consecutive frames; 1: consecutive frames of the video."""
    place: Place = "random"
    """`random`: a uniform time in each segment, drawn independently. `middle`: the middle of each
    segment. `ends`: evenly spaced times, from the first frame to the last."""
    shuffle: bool = True
    """Whether videos are in a new random order in each epoch; otherwise video after video."""
    weights: Weights | None = None
    """As for `RandomClips`; only with `shuffle`."""
    seed: int = 0

    def __post_init__(self) -> None:
        check_counts(
            1,
            MOST_FRAMES,
            num_segments=self.num_segments,
            frames_per_segment=self.frames_per_segment,
            stride=self.stride,
        )
        check_counts(1, MOST_FRAMES, frames=self.num_segments * self.frames_per_segment)
        one_of(Place, place=self.place)
        if self.weights is not None:
            object.__setattr__(self, "weights", checked_weights(self.weights))
        if self.weights is not None and not self.shuffle:
            raise ConfigError("weights need shuffle=True; without it each video has one clip")

    @property
    def traits(self) -> SamplerTraits:
        """Traits: clips, in random order unless `shuffle` and `place` are fixed."""
        return SamplerTraits(
            identity=identity_of(self),
            is_random=self._is_random,
            has_replacement=False,
            num_frames=self.num_segments * self.frames_per_segment,
            seed=self.seed if self._is_random else None,
        )

    def bind(self, context: SamplerContext) -> Self:
        """Return the sampler with the requested seed and the weights of the opened videos."""
        seed = context.seed_for(self.seed) if self._is_random else self.seed
        return replace(self, seed=seed, weights=opened_weights(self.weights, context))

    def order(self, population: Population, epoch: int) -> EpochOrder:
        """Return the order of one epoch: one slot per video.

        Raises:
            ConfigError: the population has no times.
        """
        population.timed()
        videos = np.arange(population.num_videos)
        video_order = VideoOrder(length=len(videos), at=lambda slots: slots)
        if self.shuffle:
            weights = _in_order(self.weights, len(videos))
            video_order = VideoOrder.shuffled(videos, weights, seed=self.seed, epoch=epoch)
        draws = CounterRng(self.seed, epoch, RngStream.SEGMENT)

        def clips_at(slots: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
            video = video_order.at(slots)
            numbers = slots[:, None] * self.num_segments + np.arange(self.num_segments)
            first = self._first_frames(population, video, numbers, draws)
            return self._segment_frames(population, video, first)

        has_pads = self.frames_per_segment > 1
        return EpochOrder.of_clips(video_order.length, clips_at, has_pads=has_pads)

    @property
    def _is_random(self) -> bool:
        return self.shuffle or self.place == "random"

    def _first_frames(
        self,
        population: Population,
        video: NDArray[np.int64],
        numbers: NDArray[np.int64],
        draws: CounterRng,
    ) -> NDArray[np.int64]:
        """Return the index of the frame shown at a time in each segment, int64 [n, segments].

        A segment is [start, next start) in ticks; an empty segment gets its start.
        """
        indices = np.empty(numbers.shape, np.int64)
        segment = np.arange(self.num_segments + 1)
        for row, video_id in enumerate(video.tolist()):
            times = population.timed()[video_id]
            first, last = int(times.pts[0]), int(times.pts[-1])
            if self.place == "random":
                start = segment * (times.end - first) // self.num_segments
                ticks = start[:-1] + draws.integers(numbers[row], np.maximum(np.diff(start), 1))
            else:
                if self.place == "ends":
                    ticks = segment[:-1] * (last - first) // max(1, self.num_segments - 1)
                else:
                    ticks = (2 * segment[:-1] + 1) * (times.end - first) // (2 * self.num_segments)
                ticks += times.slack_ticks * (ticks > 0)
            indices[row] = times.shown_at(first + ticks)
        return indices

    def _segment_frames(
        self, population: Population, video: NDArray[np.int64], index: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the frame ids of segments that start at `index`, [n, segments], and the pads.

        Near the end of the video, segments start earlier.
        """
        length = population.frames_per_video[video][:, None, None]
        step = np.arange(self.frames_per_segment) * self.stride
        latest = np.maximum(length - clip_span(self.frames_per_segment, self.stride), 0)
        wanted = np.minimum(index[:, :, None], latest) + step
        is_pad = (wanted >= length).reshape(len(video), -1)
        last = np.minimum(wanted, (length - 1) // self.stride * self.stride)
        frames = np.where(wanted < length, wanted, last).reshape(len(video), -1)
        return population.frame_ids(video[:, None], frames), is_pad
