"""All frames end to end on a line, each as long as its share: uniform places give it its share."""

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.sampling.population import Population
from headrace.sampling.sampler import SamplerUse
from headrace.sampling.weights import Weights, checked_weights, opened_weights, weights_in_order

_Word = Literal["frames", "seconds", "videos"]

_WORDS: tuple[_Word, ...] = get_args(_Word)

Over = _Word | Weights
"""What sampling is uniform over.

- `frames`: every frame alike, so that long videos come more often than short ones.
- `seconds`: every moment alike, so that a frame comes in proportion to how long it is shown.
- `videos`: every video alike, so that frames of short videos come more often than others.
- weights (`weights.py`): videos in proportion to them, and the frames of a video alike.
"""

Line = Callable[[NDArray[np.float64]], NDArray[np.int64]]
"""Places in [0, 1) on the line → ids of the frames that lie there."""


def checked_over(over: object) -> Over:
    """Return it as it is kept: a word, or weights.

    Raises:
        ConfigError: it is no such word, and no weights.
    """
    if isinstance(over, str) and over in _WORDS:
        return _WORDS[_WORDS.index(over)]
    if over is None or isinstance(over, str):
        raise ConfigError(
            f"over must be {', '.join(_WORDS)}, weights, one for each video, or a mapping "
            f"from paths to weights, got {over!r}"
        )
    return checked_weights("weights", over)


def over_opened(over: Over, use: SamplerUse) -> Over:
    """Return `over` with the weights of those videos only that could be opened.

    Raises:
        ConfigError: one of them has no weight, or none has one above 0.
    """
    if isinstance(over, str):
        return over
    weights = opened_weights("weights", over, use)
    return over if weights is None else weights


def line_of(population: Population, over: Over) -> Line:
    """Return the line on which every frame has its share, in the order of frame ids.

    Raises:
        ConfigError: `seconds`, and the population has no durations; or there are not as many
            weights as videos.
    """
    if over == "seconds":
        return _line_of_seconds(population)
    if over == "frames":
        return _line_of_videos(population, population.frames_per_video.astype(np.float64))
    weights = None if over == "videos" else weights_in_order(over, population.num_videos)
    return _line_of_videos(
        population, np.ones(population.num_videos) if weights is None else weights
    )


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
