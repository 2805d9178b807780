"""Weights: how often each video comes beside the others, by its place or by its path."""

import os
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError, in_words
from headrace.sampling.sampler import SamplerUse
from headrace.video.source import Source
from headrace.video.timebase import exact_number

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


def opened_weights(name: str, weights: Weights | None, use: SamplerUse) -> tuple[float, ...] | None:
    """Return the weights of those videos only that could be opened, in their order.

    Raises:
        ConfigError: one has none, there are not as many as videos, or all that are left are 0.
    """
    if weights is None:
        return None
    if isinstance(weights, Mapping):
        found = _by_path(name, {_path(name, path): each for path, each in weights.items()}, use)
    elif len(weights) == use.videos_given:
        found = tuple(float(weights[each]) for each in use.videos.tolist())
    elif len(weights) == len(use.videos):
        found = tuple(map(float, weights))
    else:
        raise ConfigError(_count(use.videos_given, len(weights)))
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


def _by_path(name: str, weights: dict[str, float], use: SamplerUse) -> tuple[float, ...]:
    if len(use.paths) != len(use.videos):
        raise ConfigError(
            f"{name} are by path, and the paths of the videos are not known here; give one for "
            "each video in order"
        )
    missing = dict.fromkeys(path for path in use.paths if path not in weights)
    if missing:
        known = ", ".join(list(weights)[:3]) or "none"
        raise ConfigError(
            f"{name} have none for {next(iter(missing))} (and {len(missing) - 1} more videos); "
            f"give one for each by its path as it was given; there are: {known[:200]}"
        )
    return tuple(weights[path] for path in use.paths)


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
