"""All frames end to end on a line, each as long as its share: uniform places give it its share."""

import os
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.sampling.population import Population
from headrace.sampling.sampler import SamplerUse

_Word = Literal["frames", "seconds", "videos"]

Over = _Word | tuple[float, ...] | Mapping[str | os.PathLike[str], float]
"""What sampling is uniform over; a tuple, or a mapping from its path, gives each video a weight.

- `frames`: every frame alike, so that long videos come more often than short ones.
- `seconds`: every moment alike, so that a frame comes in proportion to how long it is shown.
- `videos`: every video alike, so that frames of short videos come more often than others.
- weights: videos in proportion to them, and the frames of a video alike.
"""

Line = Callable[[NDArray[np.float64]], NDArray[np.int64]]
"""Places in [0, 1) on the line → ids of the frames that lie there."""


def check_over(over: Over) -> None:
    """Raise ConfigError if `over` is no such word, and no weights."""
    weights: tuple[float, ...] | None = over if isinstance(over, tuple) else None
    if isinstance(over, Mapping) and all(isinstance(key, str | os.PathLike) for key in over):
        weights = tuple(over.values())
    if weights is not None:
        if not (isfinite(sum(weights)) and min(weights, default=0) >= 0 < sum(weights)):
            said = f"weights must be finite, at least 0 and not all 0, got {weights[:8]}"
            raise ConfigError(said)
    elif not (isinstance(over, str) and over in get_args(_Word)):
        raise ConfigError(
            f"over must be {', '.join(get_args(_Word))}, a tuple of weights, one for each video, "
            f"or a mapping from paths to weights, got {over!r}"
        )


def over_opened(over: Over, use: SamplerUse) -> Over:
    """Return `over` with the weights of those videos only that could be opened.

    Raises:
        ConfigError: a mapping has no weight for one of them; names it.
    """
    if isinstance(over, Mapping):
        by_path = {os.fspath(path): weight for path, weight in over.items()}
        missing = [path for path in use.paths if path not in by_path]
        if missing or not use.paths:
            raise ConfigError(
                f"a mapping of weights needs one for each video, by its path as it was given; it "
                f"has none for {missing[0] if missing else 'a set without paths'} (and "
                f"{max(0, len(missing) - 1)} more), and {len(by_path)} in all"
            )
        return tuple(by_path[path] for path in use.paths)
    if isinstance(over, tuple) and len(over) == use.videos_given:
        return tuple(over[each] for each in use.videos.tolist())
    return over


def line_of(population: Population, over: Over) -> Line:
    """Return the line on which every frame has its share, in the order of frame ids.

    Raises:
        ConfigError: `seconds`, and the population has no durations; or there are not as many
            weights as videos.
    """
    if over == "seconds":
        return _line_of_seconds(population)
    if isinstance(over, tuple):
        if len(over) != population.num_videos:
            raise ConfigError(
                f"one weight is needed for each of {population.num_videos} videos, got {len(over)}"
            )
        return _line_of_videos(population, np.array(over, np.float64))
    if isinstance(over, Mapping):
        raise ConfigError("a mapping of weights is for a loader, which knows the paths of videos")
    if over == "videos":
        return _line_of_videos(population, np.ones(population.num_videos))
    return _line_of_videos(population, population.frames_per_video.astype(np.float64))


def _line_of_seconds(population: Population) -> Line:
    until = population.shown_until
    if until is None:
        raise ConfigError(
            "sampling over seconds needs to know how long each frame is shown; give "
            "durations_seconds to Population.of"
        )
    return lambda places: stretch_of(until, places * until[-1])


def _line_of_videos(population: Population, weights: NDArray[np.float64]) -> Line:
    until = np.cumsum(weights)
    frames = population.frames_per_video

    def line(places: NDArray[np.float64]) -> NDArray[np.int64]:
        at = places * until[-1]
        video = stretch_of(until, at)
        into = (at - (until - weights)[video]) / weights[video]
        index = np.clip(into * frames[video], 0, frames[video] - 1).astype(np.int64)
        return population.frame_ids(video, index)

    return line


def stretch_of(until: NDArray[np.float64], at: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return which stretch of a line each place falls into; `until` are the ends.

    A stretch without length is never hit: a place may round up to the end of the line, and falls
    back into the last stretch that has a length.
    """
    last = np.searchsorted(until, until[-1], "left")
    return np.asarray(np.minimum(np.searchsorted(until, at, "right"), last), np.int64)
