"""Weights: how often each video comes beside the others, by its place or by its path."""

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
"""How often each video, or row of a manifest, comes beside the others; finite, 0 and more, not all
0. Numbers in the order of videos, those that cannot be opened among them: a list, a tuple, a NumPy
array or a tensor. Or a mapping from paths as they were given: videos without a weight are an error,
paths that are not sampled are passed over, and all rows of a video have its weight."""

Over = _Word | Weights
"""What sampling is uniform over.

- `frames`: every frame alike, so that long videos come more often than short ones.
- `seconds`: every moment alike, so that a frame comes in proportion to how long it is shown.
- `videos`: every video alike, so that frames of short videos come more often than others.
- weights (`Weights`): videos in proportion to them, and the frames of a video alike.
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


def over_opened(over: Over, context: SamplerContext) -> Over:
    """Return `over` with the weights of those videos only that could be opened.

    Raises:
        ConfigError: one of them has no weight, or none has one above 0.
    """
    if isinstance(over, str):
        return over
    weights = opened_weights("weights", over, context)
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


_SHOWN = 8


def checked_weights(name: str, weights: object) -> tuple[float, ...] | dict[str, float]:
    """Return weights as they are kept: one for each video in order, or by path.

    Raises:
        ConfigError: they are no such weights; `name` says what they are.
    """
    if isinstance(weights, Mapping):
        paths = [_path(name, path) for path in weights]
        found = dict(zip(paths, _numbers(name, list(weights.values()), paths), strict=True))
        if len(found) < len(paths):
            raise ConfigError(f"{name} name a path twice; give each path one weight")
        return found
    if isinstance(weights, str | bytes) or not hasattr(weights, "__len__"):
        raise ConfigError(
            f"{name} must be numbers, one for each video, or a mapping from paths to numbers, got "
            f"{str(weights)[:80]!r}"
        )
    return tuple(_numbers(name, weights))


def opened_weights(
    name: str, weights: Weights | None, context: SamplerContext
) -> tuple[float, ...] | None:
    """Return the weights of those videos only that could be opened, in their order.

    Raises:
        ConfigError: one has none, there are not as many as videos, or all that are left are 0.
    """
    if weights is None:
        return None
    if isinstance(weights, Mapping):
        found = _by_path(name, {_path(name, path): each for path, each in weights.items()}, context)
    elif len(weights) == context.videos_given:
        found = tuple(float(weights[each]) for each in context.videos.tolist())
    elif len(weights) == len(context.videos):
        found = tuple(map(float, weights))
    else:
        raise ConfigError(_count(context.videos_given, len(weights)))
    if not any(found):
        raise ConfigError(f"{name} are 0 for all {len(found)} videos that could be opened")
    return found


def weights_in_order(weights: Weights | None, num_videos: int) -> NDArray[np.float64] | None:
    """Return the weights of so many videos, float64 [videos]; None: there are none.

    Raises:
        ConfigError: there are not as many as videos, or by path, which only a loader knows.
    """
    if weights is None:
        return None
    if isinstance(weights, Mapping):
        raise ConfigError("a mapping of weights is for a loader, which knows the paths of videos")
    if len(weights) != num_videos:
        raise ConfigError(_count(num_videos, len(weights)))
    return np.array(weights, np.float64)


def _by_path(name: str, weights: dict[str, float], context: SamplerContext) -> tuple[float, ...]:
    if len(context.paths) != len(context.videos):
        raise ConfigError(
            f"{name} are by path, and the paths of the videos are not known here; give one for "
            "each video in order"
        )
    missing = dict.fromkeys(path for path in context.paths if path not in weights)
    if missing:
        known = ", ".join(list(weights)[:3]) or "none"
        raise ConfigError(
            f"{name} have none for {next(iter(missing))} (and {len(missing) - 1} more videos); "
            f"give one for each by its path as it was given; there are: {known[:200]}"
        )
    return tuple(weights[path] for path in context.paths)


def _path(name: str, path: object) -> str:
    found = str(path) if isinstance(path, os.PathLike | Source) else path
    if not isinstance(found, str):
        raise ConfigError(f"{name} must be by path, got {path!r} in place of one")
    return found


def as_numbers(name: str, values: object, each: str) -> NDArray[np.float64]:
    """Return weights as float64 [n], whatever holds them: a list, an array, a tensor.

    Args:
        name: What they are.
        values: Numbers, or words that are numbers as `exact_number` takes them.
        each: What each of them is for: "video".

    Raises:
        ConfigError: they are no numbers.
    """
    try:
        given = np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        raise ConfigError(
            f"{name} must be numbers, one for each {each}, got {type(values).__name__}: "
            f"{in_words(error)}"
        ) from error
    if given.ndim != 1:
        raise ConfigError(
            f"{name} must be numbers, one for each {each}, got {[*given.shape]} values"
        )
    if given.dtype.kind in "iuf":
        return given.astype(np.float64)
    listed = values if isinstance(values, list) else given.tolist()
    return np.array([float(exact_number(f"each of {name}", value)) for value in listed])


def check_weights(name: str, found: NDArray[np.float64], at: Callable[[int], str]) -> None:
    """Check that float64 [n] are finite, at least 0 and not all 0.

    Raises:
        ConfigError: they are not; `name` says what they are, `at` what the k-th of them is for.
    """
    wrong = np.flatnonzero(~(np.isfinite(found) & (found >= 0)))
    if len(wrong) or not isfinite(sum(found.tolist())) or not found.any():
        shown = f"{found[wrong[0]]:g}" if len(wrong) else f"{found[:_SHOWN].tolist()}"
        of = f" for {at(int(wrong[0]))}" if len(wrong) else ""
        raise ConfigError(f"{name} must be finite, at least 0 and not all 0, got {shown}{of}")


def _numbers(name: str, values: object, paths: Sequence[str] = ()) -> list[float]:
    found = as_numbers(name, values, "video")
    check_weights(name, found, lambda place: paths[place] if paths else f"number {place}")
    return [float(each) for each in found]


def _count(needed: int, got: int) -> str:
    return f"one weight is needed for each of {needed} videos or rows, got {got}"


@dataclass(frozen=True, kw_only=True, eq=False)
class VideoOrder:
    """Which video each slot of an epoch is of: `visits.at(slots)`."""

    length: int
    """Slots in the epoch: as many as there are videos to choose from."""
    at: Callable[[NDArray[np.int64]], NDArray[np.int64]]
    """Slots in [0, length) → numbers of videos, int64 of the same shape."""

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

        With weights, each video comes as often as its share of the epoch says, rounded up or down,
        over epochs and seeds exactly so on average: all lie on a line, each as long as its weight,
        and equal cells of it are visited in random order, at one place in all of them that is
        another one each epoch.

        Args:
            videos: int64: numbers of those that there are to choose from.
            weights: Of every video, those that are not chosen from as well. None: each once.
            seed: Another one gives another order.
            epoch: So does another epoch.

        Raises:
            ConfigError: none of `videos` has a weight.
        """
        shuffle = Feistel(
            size=len(videos), draws=CounterRng(seed=seed, epoch=epoch, purpose=RngStream.SHUFFLE)
        )
        if weights is None:
            return cls(length=len(videos), at=lambda slots: videos[shuffle.at(slots)])
        until = np.cumsum(weights[videos])
        if not until[-1] > 0:
            raise ConfigError("none of the videos that a clip fits into has a weight above 0")
        place = CounterRng(seed=seed, epoch=epoch, purpose=RngStream.ROTATION).fractions(0)

        def at(slots: NDArray[np.int64]) -> NDArray[np.int64]:
            on_line = (shuffle.at(slots) + place) / len(videos) * until[-1]
            chosen: NDArray[np.int64] = videos[stretch_of(until, on_line)]
            return chosen

        return cls(length=len(videos), at=at)
