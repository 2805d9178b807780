"""SpreadClips: frames, or short runs of them, spread over the whole of each video."""

from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from headrace.argument_names import answers_names
from headrace.errors import ConfigError
from headrace.sampling.boundary import clip_span
from headrace.sampling.clip_shape import MOST_FRAMES
from headrace.sampling.order import Order
from headrace.sampling.population import Population
from headrace.sampling.random import Draws, Purpose
from headrace.sampling.sampler import SamplerTraits, SamplerUse
from headrace.sampling.visits import Visits
from headrace.sampling.weights import Weights, checked_weights, opened_weights, weights_in_order
from headrace.sizes import check_counts, one_of

Place = Literal["random", "middle", "ends"]
"""Where in each part of a video a frame is taken."""


@answers_names
@dataclass(frozen=True, kw_only=True)
class SpreadClips:
    """`num_segments` frames that are spread over the time of each video: one clip of each.

        SpreadClips(num_segments=8)  # temporal segment networks, for training
        SpreadClips(num_segments=8, place="middle", shuffle=False)  # and for evaluation
        SpreadClips(num_segments=64, place="ends")  # what video language models are shown

    The time that a video is shown is cut into `num_segments` equal parts, and from each comes the
    frame that is shown at one moment of it. A video with fewer frames gives some of them twice. An
    order delivers int64 [n, num_segments * frames_per_segment] frame ids.
    Source: Wang et al., "Temporal segment networks", ECCV 2016.
    """

    num_segments: int
    frames_per_segment: int = 1
    """From each part this many frames, `stride` apart, as far as they lie inside the video: a video
    that is too short for them repeats its last frame, marked in `Batch.is_pad`."""
    stride: int = 1
    """1 means consecutive."""
    place: Place = "random"
    """`random`: any moment of each part, drawn for itself. `middle`: the middle of each. `ends`:
    moments as far apart, from the first frame to the last."""
    shuffle: bool = True
    """Whether videos come in random order, another one each epoch; else video after video."""
    weights: Weights | None = None
    """As for `RandomClips`; they need `shuffle`."""
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
            object.__setattr__(self, "weights", checked_weights("weights", self.weights))
        if self.weights is not None and not self.shuffle:
            raise ConfigError("weights need shuffle=True; without it each video comes once")

    @property
    def traits(self) -> SamplerTraits:
        """Clips, each video once an epoch."""
        return SamplerTraits(
            identity=repr(self),
            is_random=self._is_random,
            has_replacement=False,
            num_frames=self.num_segments * self.frames_per_segment,
            seed=self.seed if self._is_random else None,
        )

    def adapt(self, use: SamplerUse) -> Self:
        """Return this with the seed asked for, and the weights of the videos that were opened."""
        seed = use.seed_for(self.seed) if self._is_random else self.seed
        return replace(self, seed=seed, weights=opened_weights("weights", self.weights, use))

    def order(self, population: Population, epoch: int) -> Order:
        """Return the order of one epoch: as many slots as videos.

        Raises:
            ConfigError: the population does not say when frames are shown.
        """
        population.timed()
        videos = np.arange(population.num_videos)
        visits = Visits(length=len(videos), at=lambda slots: slots)
        if self.shuffle:
            weights = weights_in_order(self.weights, len(videos))
            visits = Visits.shuffled(videos, weights, seed=self.seed, epoch=epoch)
        draws = Draws(seed=self.seed, epoch=epoch, purpose=Purpose.SEGMENT)

        def clips_at(slots: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
            video = visits.at(slots)
            numbers = slots[:, None] * self.num_segments + np.arange(self.num_segments)
            return self._runs(population, video, self._moments(population, video, numbers, draws))

        return Order.of_clips(visits.length, clips_at, has_pads=self.frames_per_segment > 1)

    @property
    def _is_random(self) -> bool:
        return self.shuffle or self.place == "random"

    def _moments(
        self,
        population: Population,
        video: NDArray[np.int64],
        numbers: NDArray[np.int64],
        draws: Draws,
    ) -> NDArray[np.int64]:
        """Return the index of the frame that is shown at the moment of each part, int64 [n, parts].

        A part is [begin, begin of the next) in ticks, so that one of no tick takes what follows.
        """
        found = np.empty(numbers.shape, np.int64)
        part = np.arange(self.num_segments + 1)
        for row, each in enumerate(video.tolist()):
            times = population.timed()[each]
            first, last = int(times.pts[0]), int(times.pts[-1])
            if self.place == "random":
                begin = part * (times.end - first) // self.num_segments
                into = begin[:-1] + draws.integers(numbers[row], np.maximum(np.diff(begin), 1))
            else:
                if self.place == "ends":
                    into = part[:-1] * (last - first) // max(1, self.num_segments - 1)
                else:
                    into = (2 * part[:-1] + 1) * (times.end - first) // (2 * self.num_segments)
                into += times.slack_ticks * (into > 0)
            found[row] = times.shown_at(first + into)
        return found

    def _runs(
        self, population: Population, video: NDArray[np.int64], index: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the frames of runs that begin at `index`, [n, parts], or as near as they fit."""
        length = population.frames_per_video[video][:, None, None]
        step = np.arange(self.frames_per_segment) * self.stride
        latest = np.maximum(length - clip_span(self.frames_per_segment, self.stride), 0)
        wanted = np.minimum(index[:, :, None], latest) + step
        is_pad = (wanted >= length).reshape(len(video), -1)
        there = np.minimum(wanted, (length - 1) // self.stride * self.stride)
        frames = np.where(wanted < length, wanted, there).reshape(len(video), -1)
        return population.frame_ids(video[:, None], frames), is_pad
