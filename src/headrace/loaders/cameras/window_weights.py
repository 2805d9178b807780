"""How often each window comes beside the others: by clip, by key moment, or by classes."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from headrace.errors import ConfigError
from headrace.loaders.cameras.window_plan import WindowPlan
from headrace.sampling.frame_samplers import Weighted, balanced
from headrace.sampling.sampling_weights import as_numbers, check_weights

ClipWeights = Mapping[str, float | Sequence[float]]
"""By name of the clip: one weight for all its key moments, or one for each moment, in the order of
the clip, those that are not delivered among them."""

ClipLabels = Mapping[str, Collection[str] | Sequence[Collection[str]]]
"""By name of the clip: the classes of all its moments, `["car", "bus"]`, or those of each moment,
likewise, `[["car"], [], ["car", "bus"]]`."""


def by_weight(plan: WindowPlan, weights: ClipWeights, seed: int) -> Weighted:
    """Return the sampler of key moments in proportion to weights.

    Raises:
        ConfigError: a clip has none, a clip has not as many as moments, one that is not there has
            any, or they are no weights.
    """
    found = np.array(_each_key(plan, "weights", weights, _weights_of_moments), np.float64)
    check_weights("weights", found, plan.name)
    return Weighted(weights=found, length=len(plan), seed=seed)


def by_class(plan: WindowPlan, labels: ClipLabels, seed: int) -> Weighted:
    """Return the sampler of key moments by which each class comes equally often.

    Raises:
        ConfigError: a clip has no labels, or not as many as moments, one that is not there has any,
            or none has a class.
    """
    found = _each_key(plan, "class_balance", labels, _labels_of_moments)
    for classes in found:
        if not _are_names(classes):
            raise ConfigError(
                "class_balance must hold the names of classes of each clip, or of each of its "
                f"moments, such as ['car', 'bus'], got {classes!r}"
            )
    weights, length = balanced(found)
    return Weighted(weights=weights, length=length, seed=seed)


def _weights_of_moments(name: str, value: Any, moments: int) -> Sequence[float]:
    if isinstance(value, Mapping):
        raise _not_of_moments(name, moments, "a dict")
    is_many = _is_many(value)
    found = as_numbers(name, value if is_many else [value], "moment").tolist()
    if is_many and len(found) != moments:
        raise _not_of_moments(name, moments, len(found))
    return [float(each) for each in (found if is_many else found * moments)]


def _labels_of_moments(name: str, value: Any, moments: int) -> Sequence[Any]:
    if _are_names(value) or isinstance(value, str):
        return [value] * moments
    if isinstance(value, Mapping):
        raise _not_of_moments(name, moments, "a dict")
    if not _is_many(value) or not hasattr(value, "__getitem__") or len(value) != moments:
        raise _not_of_moments(name, moments, len(value) if _is_many(value) else value)
    return [*value]


def _is_many(value: object) -> bool:
    """Return whether it holds others; an array or tensor of one number does not."""
    is_words = isinstance(value, str | bytes)
    return hasattr(value, "__len__") and getattr(value, "ndim", 1) > 0 and not is_words


def _not_of_moments(name: str, moments: int, found: object) -> ConfigError:
    return ConfigError(
        f"{name} must have one entry, or a list of one for each of its {moments} moments, got "
        f"{found!s:.60}"
    )


def _are_names(value: object) -> bool:
    return (
        isinstance(value, Collection)
        and _is_many(value)
        and all(isinstance(each, str) for each in value)
    )


def _each_key(
    plan: WindowPlan,
    name: str,
    given: Mapping[str, Any],
    of_moments: Callable[[str, Any, int], Sequence[Any]],
) -> list[Any]:
    """Return what is given for each key moment, by what `of_moments` makes of a clip's."""
    if not isinstance(given, Mapping):
        raise ConfigError(f"{name} must be by name of clip, got {type(given).__name__}")
    table = plan.table
    table.cameras.layout.check_clips(name, given)
    missing = [each for each in plan.key_clips.tolist() if table.clip_names[each] not in given]
    if missing:
        raise ConfigError(
            f"{name} has nothing for clip {table.clip_names[missing[0]]} (and {len(missing) - 1} "
            "more); give it for each clip by its name; there is "
            f"{', '.join(map(str, list(given)[:3])) or 'none'}"
        )
    lists = {}
    for place in plan.key_clips.tolist():
        of = table.cameras.clips[place]
        said = f"{name} of clip {of.clip.name}"
        lists[place] = of_moments(said, given[of.clip.name], len(of.reference_seconds))
    numbers = table.index[plan.key_row].tolist()
    return [lists[clip][each] for clip, each in zip(plan.clip.tolist(), numbers, strict=True)]
