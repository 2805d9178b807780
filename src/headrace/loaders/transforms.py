"""Transforms: functions of each sample, with a seed of its own, and of whole batches."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from headrace.errors import ConfigError
from headrace.models.value_words import value_words
from headrace.sampling.counter_rng import seeded

BatchTransform = Callable[[torch.Tensor], torch.Tensor]
"""Function of the uint8 frames of a whole batch, on their device."""


@dataclass(frozen=True)
class WithSample:
    """A transform that also receives the sample's other entries: `transform=WithSample(mine)`.

        def mine(frames, sample):
            return crop(frames, boxes[sample["video"], sample["index"]])

    `sample` holds the entries of the batch besides frames, by name: video, index, pts_seconds, and
    labels, if any; of cameras: slot, clip, first_frame, image_matrix and the others.
    """

    function: Callable[[torch.Tensor, Mapping[str, Any]], Any]


Transform = Callable[[torch.Tensor], Any] | WithSample
"""Function of the uint8 frames of one sample: [3, H, W] of a frame, [T, 3, H, W] of a clip, so that
one draw serves the whole clip."""


def check_transforms(transform: object = None, batch_transform: object = None) -> None:
    """Check that each is a function, or None.

    Raises:
        ConfigError: one is not; names it.
    """
    if not (transform is None or callable(transform) or isinstance(transform, WithSample)):
        raise ConfigError(
            "transform must be a function of frames, or WithSample(function of frames and sample), "
            f"got {type(transform).__name__}"
        )
    if not (batch_transform is None or callable(batch_transform)):
        raise ConfigError(
            "batch_transform must be a function of the frames of a batch, got "
            f"{type(batch_transform).__name__}"
        )


def transformed_one(transform: Transform, frames: torch.Tensor, sample: Mapping[str, Any]) -> Any:
    """Return the transformed frames of one sample, by the process's own random state."""
    if isinstance(transform, WithSample):
        return transform.function(frames, sample)
    return transform(frames)


def transformed_each(
    transform: Transform,
    frames: Sequence[torch.Tensor] | torch.Tensor,
    samples: Iterable[Mapping[str, Any]],
    seeds: Iterable[int],
) -> list[Any]:
    """Return the transformed frames of each sample; its random numbers follow from its seed.

    Samples are transformed one after another, in this thread.
    """
    if not len(frames):
        return []
    with seeded(frames[0].device) as seed:
        results = []
        for pixels, sample, number in zip(frames, samples, seeds, strict=True):
            seed(number)
            results.append(transformed_one(transform, pixels, sample))
        return results


def stacked(samples: Sequence[Any]) -> torch.Tensor:
    """Return transformed samples as one tensor [N, ...], channels last in memory as in the first.

    Raises:
        ConfigError: they are not tensors of one shape and dtype.
    """
    for sample in samples:
        if not isinstance(sample, torch.Tensor):
            raise ConfigError(f"transform must return a tensor, got {value_words(sample)}")
    kinds = dict.fromkeys(f"{sample.dtype} {[*sample.shape]}" for sample in samples)
    if len(kinds) > 1:
        raise ConfigError(
            f"transform must make all samples alike for a batch, got {' and '.join([*kinds][:2])}; "
            "end it with a resize or crop to one size, and one dtype"
        )
    first = samples[0]
    if first.ndim >= 3 and first.stride(-3) == 1:
        return torch.stack([sample.movedim(-3, -1) for sample in samples]).movedim(-1, -3)
    return torch.stack([*samples])
