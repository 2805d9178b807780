"""From the sampling that was asked for to one that fits the videos there are."""

from dataclasses import fields, is_dataclass, replace
from typing import Any, Protocol

from headrace.sampling.clips import RandomClips, UniformClips, check_lengths
from headrace.sampling.order import Sampler
from headrace.sampling.population import Population
from headrace.training.video_set import VideoSet


class Sampled(Protocol):
    """What frames are drawn from."""

    @property
    def population(self) -> Population:
        """Its frames."""

    def timed_population(self) -> Population:
        """Return the same with durations."""


def fitted(sampling: Any, seed: int | None, videos: VideoSet) -> tuple[Sampler, int]:
    """Return the sampler with `seed`, if one is given, for the videos that were opened.

    Also the seed it has. It keeps the weights of those videos only.

    Raises:
        ConfigError: a video is too short for its clips; names the file.
    """
    over = getattr(sampling, "over", None)
    if isinstance(over, tuple) and len(over) == len(videos.indexes) + len(videos.left_out):
        sampling = replace(sampling, over=tuple(over[each] for each in videos.number.tolist()))
    has_seed = is_dataclass(sampling) and "seed" in {field.name for field in fields(sampling)}
    if seed is not None and has_seed:
        sampling = replace(sampling, seed=seed)
    if isinstance(sampling, RandomClips | UniformClips):
        lengths = videos.population.frames_per_video
        check_lengths(sampling, lengths, lambda video: str(videos.indexes[video].source))
    return sampling, getattr(sampling, "seed", seed or 0)


def population_for(sampling: Sampler, videos: Sampled) -> Population:
    """Return the frames of the videos; with durations where they are sampled in time."""
    is_timed = getattr(sampling, "over", None) == "seconds"
    return videos.timed_population() if is_timed else videos.population
