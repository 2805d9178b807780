"""Samplers of windows by weights or class balance, given by name of the clip."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from headrace.errors import ConfigError
from headrace.loaders.cameras.window_options import ClipLabels, ClipWeights
from headrace.loaders.cameras.window_plan import WindowPlan
from headrace.sampling.frame_samplers import Weighted, balanced
from headrace.sampling.sampling_weights import as_numbers, check_weights


def sample_by_weight(plan: WindowPlan, weights: ClipWeights, seed: int) -> Weighted:
    """Return the sampler that draws key moments in proportion to their weights.

    Raises:
        ConfigError: a clip lacks weights or is unknown, has another number of them than moments,
            or a weight is no number >= 0.
    """
    key_weights = np.array(_value_per_key(plan, "weights", weights, _moment_weights), np.float64)
    check_weights("weights", key_weights, plan.name)
    return Weighted(weights=key_weights, length=len(plan), seed=seed)


def sample_by_class(plan: WindowPlan, labels: ClipLabels, seed: int) -> Weighted:
    """Return the sampler that draws each class equally often.

    Raises:
        ConfigError: a clip lacks labels or is unknown, has another number of them than moments, or
            no moment has a class.
    """
    key_labels = _value_per_key(plan, "class_balance", labels, _moment_labels)
    for classes in key_labels:
        if not _are_names(classes):
            raise ConfigError(
                "class_balance must hold the names of classes of each clip, or of each of its "
                f"moments, such as ['car', 'bus'], got {classes!r}"
            )
    weights, length = balanced(key_labels)
    return Weighted(weights=weights, length=length, seed=seed)


def _moment_weights(name: str, value: Any, moments: int) -> Sequence[float]:
    if isinstance(value, Mapping):
        raise _wrong_count(name, moments, "a dict")
    is_list = _is_list(value)
    weights: list[float] = as_numbers(name, value if is_list else [value], "moment").tolist()
    if is_list and len(weights) != moments:
        raise _wrong_count(name, moments, len(weights))
    return weights if is_list else weights * moments


def _moment_labels(name: str, value: Any, moments: int) -> Sequence[Any]:
    if _are_names(value) or isinstance(value, str):
        return [value] * moments
    if isinstance(value, Mapping):
        raise _wrong_count(name, moments, "a dict")
    if not _is_list(value) or not hasattr(value, "__getitem__") or len(value) != moments:
        raise _wrong_count(name, moments, len(value) if _is_list(value) else value)
    return [*value]


def _is_list(value: object) -> bool:
    """Return whether a value has items; an array or tensor of one number has none."""
    is_text = isinstance(value, str | bytes)
    return hasattr(value, "__len__") and getattr(value, "ndim", 1) > 0 and not is_text


def _wrong_count(name: str, moments: int, count: object) -> ConfigError:
    return ConfigError(
        f"{name} must have one entry, or a list of one for each of its {moments} moments, got "
        f"{count!s:.60}"
    )


def _are_names(value: object) -> bool:
    return (
        isinstance(value, Collection)
        and _is_list(value)
        and all(isinstance(name, str) for name in value)
    )


def _value_per_key(
    plan: WindowPlan,
    name: str,
    by_clip: Mapping[str, Any],
    expand: Callable[[str, Any, int], Sequence[Any]],
) -> list[Any]:
    """Return the value of each key moment; `expand` makes a clip's entry one value per moment."""
    if not isinstance(by_clip, Mapping):
        raise ConfigError(f"{name} must be by name of clip, got {type(by_clip).__name__}")
    cameras = plan.cameras
    cameras.layout.check_clips(name, by_clip)
    clips = {clip: cameras.clips[clip] for clip in plan.key_clips.tolist()}
    missing = [clip.clip.name for clip in clips.values() if clip.clip.name not in by_clip]
    if missing:
        raise ConfigError(
            f"{name} has nothing for clip {missing[0]} (and {len(missing) - 1} more); give it for "
            f"each clip by its name; it has {', '.join(map(str, list(by_clip)[:3])) or 'none'}"
        )
    values = {
        number: expand(
            f"{name} of clip {clip.clip.name}",
            by_clip[clip.clip.name],
            len(clip.reference_seconds),
        )
        for number, clip in clips.items()
    }
    moments = cameras.index[plan.key_row].tolist()
    return [values[clip][moment] for clip, moment in zip(plan.clip.tolist(), moments, strict=True)]
