"""Weights of videos by position or path, and sampling in proportion to weights."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError, in_words
from headrace.sampling.counter_rng import CounterRng, Feistel, RngStream
from headrace.sampling.population import Population
from headrace.sampling.sampler import SamplerContext
from headrace.video.source import Source
from headrace.video.timebase import exact_number

_Word = Literal["frames", "seconds", "videos"]

_WORDS: tuple[_Word, ...] = get_args(_Word)

Weights = (
    Sequence[float]
    | NDArray[np.float64]
    | NDArray[np.float32]
    | NDArray[np.int64]
    | Mapping[str, float]
    | Mapping[Path, float]
    | Mapping[Source, float]
)
"""Relative frequency of each video, or of each row of a manifest; finite, >= 0, not all 0. Either
numbers in the order of the given videos, including videos that cannot be opened: a list, a tuple, a
NumPy array or a tensor. Or a mapping from paths, as given: every video needs a weight, other paths
are ignored, and all rows of a video have its weight."""

Over = _Word | Weights
"""Unit over which sampling is uniform.

- `frames`: frames are equally likely, so long videos occur more often than short ones.
- `seconds`: times are equally likely, so a frame occurs in proportion to its display duration.
- `videos`: videos are equally likely, so frames of short videos occur more often than others.
- weights (`Weights`): videos occur in proportion to them; frames of a video are equally likely.
"""

InverseCdf = Callable[[NDArray[np.float64]], NDArray[np.int64]]
"""Uniform positions in [0, 1) → frame ids."""


def checked_over(over: object) -> Over:
    """Return `over` as it is stored: a word, or checked weights.

    Raises:
        ConfigError: it is another word, or invalid weights: see `checked_weights`.
    """
    if isinstance(over, str) and over in _WORDS:
        return _WORDS[_WORDS.index(over)]
    if over is None or isinstance(over, str):
        raise ConfigError(
            f"over must be {', '.join(_WORDS)}, a list of weights of videos, or a mapping from "
            f"paths to weights, got {over!r}"
        )
    return checked_weights(over)


def over_opened(over: Over, context: SamplerContext) -> Over:
    """Return `over` with the weights of the opened videos only.

    Raises:
        ConfigError: an opened video has no weight, or all weights are 0.
    """
    if isinstance(over, str):
        return over
    return opened_weights(over, context) or over


def inverse_cdf(population: Population, over: Over) -> InverseCdf:
    """Return the inverse CDF of frames, in the order of frame ids, each with its share.

    Raises:
        ConfigError: `over` is `seconds` and the population has no durations, or the number of
            weights is not the number of videos.
    """
    if over == "seconds":
        shown_until = population.shown_until
        if shown_until is None:
            raise ConfigError(
                "sampling over seconds needs the duration of each frame; give durations_seconds to "
                "Population.of"
            )
        return lambda positions: interval_of(shown_until, positions * shown_until[-1])
    weights = np.ones(population.num_videos)
    if over == "frames":
        weights = population.frames_per_video.astype(np.float64)
    elif over != "videos":
        weights = weights_in_order(over, population.num_videos)
    ends, frames = np.cumsum(weights), population.frames_per_video

    def frame_at(positions: NDArray[np.float64]) -> NDArray[np.int64]:
        scaled = positions * ends[-1]
        video = interval_of(ends, scaled)
        share = (scaled - (ends - weights)[video]) / weights[video]
        index = np.clip(share * frames[video], 0, frames[video] - 1).astype(np.int64)
        return population.frame_ids(video, index)

    return frame_at


def interval_of(ends: NDArray[np.float64], positions: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the interval that contains each position; `ends` are the ends of the intervals.

    An interval of length 0 contains no position: a position that rounds up to the last end is in
    the last interval with a length above 0.
    """
    last = np.searchsorted(ends, ends[-1], "left")
    return np.asarray(np.minimum(np.searchsorted(ends, positions, "right"), last), np.int64)


def shuffled_cells(
    length: int, seed: int, epoch: int
) -> Callable[[NDArray[np.int64]], NDArray[np.float64]]:
    """Return slots in [0, length) → positions in [0, 1): systematic sampling in random order.

    [0, 1) is cut into `length` equal cells, one per slot, in random order. The position in a cell
    is uniform, and the same in all cells of the epoch.
    Source: Madow, Ann. Math. Stat. 20, 1949.
    """
    shuffle = Feistel(size=length, draws=CounterRng(seed, epoch, RngStream.SHUFFLE))
    offset = CounterRng(seed, epoch, RngStream.ROTATION).fractions(0)
    return lambda slots: (shuffle.at(slots) + offset) / length


_MAX_SHOWN = 8
"""Max weights shown in a message."""


def checked_weights(weights: object) -> tuple[float, ...] | dict[str, float]:
    """Return weights as they are stored: in the order of videos, or by path.

    Raises:
        ConfigError: the weights are invalid.
    """
    if isinstance(weights, Mapping):
        paths = [*map(_path, weights)]
        by_path = dict(zip(paths, _numbers([*weights.values()], paths), strict=True))
        if len(by_path) < len(paths):
            raise ConfigError("weights have a path twice; give each path one weight")
        return by_path
    if isinstance(weights, str | bytes) or not hasattr(weights, "__len__"):
        raise ConfigError(
            "weights must be a list of numbers, one per video, or a mapping from paths to numbers, "
            f"got {str(weights)[:80]!r}"
        )
    return tuple(_numbers(weights))


def opened_weights(weights: Weights | None, context: SamplerContext) -> tuple[float, ...] | None:
    """Return the weights of the opened videos, in their order.

    Raises:
        ConfigError: a video has no weight, the number of weights is not the number of videos, or
            all are 0.
    """
    if weights is None:
        return None
    if isinstance(weights, Mapping):
        opened = _by_path({_path(path): weight for path, weight in weights.items()}, context)
    elif len(weights) == context.videos_given:
        opened = tuple(float(weights[video]) for video in context.videos.tolist())
    elif len(weights) == len(context.videos):
        opened = tuple(map(float, weights))
    else:
        raise ConfigError(_count(context.videos_given, len(weights)))
    if not any(opened):
        raise ConfigError(f"weights are 0 for all {len(opened)} videos that could be opened")
    return opened


def weights_in_order(weights: Weights, num_videos: int) -> NDArray[np.float64]:
    """Return the weights of `num_videos` videos, float64 [videos].

    Raises:
        ConfigError: the number of weights is not the number of videos, or they are by path, which
            only a loader can resolve.
    """
    if isinstance(weights, Mapping):
        raise ConfigError("weights by path need a loader, which knows the paths of videos")
    if len(weights) != num_videos:
        raise ConfigError(_count(num_videos, len(weights)))
    return np.array(weights, np.float64)


def _by_path(weights: dict[str, float], context: SamplerContext) -> tuple[float, ...]:
    if len(context.paths) != len(context.videos):
        raise ConfigError(
            "weights are by path, but the paths of the videos are unknown here; give a list with "
            "one weight per video"
        )
    missing = dict.fromkeys(path for path in context.paths if path not in weights)
    if missing:
        known = ", ".join(list(weights)[:3]) or "none"
        raise ConfigError(
            f"weights have no entry for {next(iter(missing))} (and {len(missing) - 1} more "
            f"videos); give one per path of a video, as given; entries are: {known[:200]}"
        )
    return tuple(weights[path] for path in context.paths)


def _path(path: object) -> str:
    text = str(path) if isinstance(path, os.PathLike | Source) else path
    if not isinstance(text, str):
        raise ConfigError(f"keys of weights must be paths, got {path!r}")
    return text


def as_numbers(name: str, values: object, each: str) -> NDArray[np.float64]:
    """Convert a list, an array or a tensor to float64 [n].

    Args:
        name: Name of the values in messages.
        values: Numbers, or texts that `exact_number` can parse.
        each: What each number is for, in messages: "video".

    Raises:
        ConfigError: the values are not numbers.
    """
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        raise ConfigError(
            f"{name} must be a list of numbers, one per {each}, got {type(values).__name__}: "
            f"{in_words(error)}"
        ) from error
    if array.ndim != 1:
        raise ConfigError(
            f"{name} must be a list of numbers, one per {each}, got shape {[*array.shape]}"
        )
    if array.dtype.kind in "iuf":
        return array.astype(np.float64)
    listed = values if isinstance(values, list) else array.tolist()
    return np.array([float(exact_number(f"each of {name}", value)) for value in listed])


def check_weights(weights: NDArray[np.float64], owner: Callable[[int], str]) -> None:
    """Check that weights, float64 [n], are finite, at least 0 and not all 0.

    Raises:
        ConfigError: they are not. `owner` returns the name of the video or moment with weight k.
    """
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(wrong) or not isfinite(sum(weights.tolist())) or not weights.any():
        values = f"{weights[:_MAX_SHOWN].tolist()}"
        if len(wrong):
            values = f"{weights[wrong[0]]:g} for {owner(int(wrong[0]))}"
        raise ConfigError(f"weights must be finite, at least 0 and not all 0, got {values}")


def _numbers(values: object, paths: Sequence[str] = ()) -> list[float]:
    weights = as_numbers("weights", values, "video")
    check_weights(weights, lambda index: paths[index] if paths else f"number {index}")
    return [float(weight) for weight in weights]


def _count(needed: int, got: int) -> str:
    return f"one weight is needed for each of {needed} videos or rows, got {got}"


@dataclass(frozen=True, kw_only=True, eq=False)
class VideoOrder:
    """Video of each slot of an epoch: `video_order.at(slots)`."""

    length: int
    """Number of slots in the epoch: the number of videos to choose from."""
    at: Callable[[NDArray[np.int64]], NDArray[np.int64]]
    """Slots in [0, length) → indices of videos, int64 of the same shape."""

    @classmethod
    def shuffled(
        cls,
        videos: NDArray[np.int64],
        weights: NDArray[np.float64] | None,
        *,
        seed: int,
        epoch: int,
    ) -> "VideoOrder":
        """Return an epoch in random order.

        With weights, each video occurs in proportion to its share of the epoch, rounded up or down,
        and exactly in proportion on average over epochs and seeds: see `shuffled_cells`.

        Args:
            videos: int64: indices of the videos to choose from.
            weights: Weights of all videos, including videos not in `videos`. None: each video once.
            seed: Seed of the order.
            epoch: Each epoch has its own order.

        Raises:
            ConfigError: all `videos` have weight 0.
        """
        if weights is None:
            draws = CounterRng(seed, epoch, RngStream.SHUFFLE)
            shuffle = Feistel(size=len(videos), draws=draws)
            return cls(length=len(videos), at=lambda slots: videos[shuffle.at(slots)])
        ends, cells = np.cumsum(weights[videos]), shuffled_cells(len(videos), seed, epoch)
        if not ends[-1] > 0:
            raise ConfigError("all videos that are long enough for a clip have weight 0; raise one")
        return cls(
            length=len(videos),
            at=lambda slots: videos[interval_of(ends, cells(slots) * ends[-1])],
        )
