"""Transforms: what is made of each sample, by chance of its own, and of whole batches."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from headrace.errors import ConfigError
from headrace.models.value_words import value_words
from headrace.sampling.counter_rng import seeded

BatchTransform = Callable[[torch.Tensor], torch.Tensor]
"""What is made of the uint8 frames of a whole batch, on their device."""


@dataclass(frozen=True)
class WithSample:
    """A transform that is also told which sample it is given: `transform=WithSample(mine)`.

        def mine(frames, sample):
            return crop(frames, boxes[sample["video"], sample["index"]])

    `sample` has what the batch has of it besides frames, by name: video, index, pts_seconds, labels
    where there are any; of cameras: slot, clip, first_frame, image_matrix and whatever else.
    """

    function: Callable[[torch.Tensor, Mapping[str, Any]], Any]


Transform = Callable[[torch.Tensor], Any] | WithSample
"""What is made of the uint8 frames of one sample: [3, H, W] of a frame, [T, 3, H, W] of a clip, so
that one draw serves the whole clip."""


def check_transforms(transform: object = None, batch_transform: object = None) -> None:
    """Check that each is a function, or None.

    Raises:
        ConfigError: one is not; says which.
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
    """Return what `transform` makes of the frames of one sample, by whatever chance there is."""
    if isinstance(transform, WithSample):
        return transform.function(frames, sample)
    return transform(frames)


def transformed_each(
    transform: Transform,
    frames: Sequence[torch.Tensor] | torch.Tensor,
    samples: Iterable[Mapping[str, Any]],
    seeds: Iterable[int],
) -> list[Any]:
    """Return what `transform` makes of each sample, all it draws following from its seed.

    Samples are transformed one after the other, in this thread.
    """
    if not len(frames):
        return []
    with seeded(frames[0].device) as seed:
        made = []
        for each, sample, number in zip(frames, samples, seeds, strict=True):
            seed(number)
            made.append(transformed_one(transform, each, sample))
        return made


def stacked(made: Sequence[Any]) -> torch.Tensor:
    """Return transformed samples as one tensor [N, ...], colour innermost if it is in the first.

    Raises:
        ConfigError: they are no tensors of one shape and dtype.
    """
    for each in made:
        if not isinstance(each, torch.Tensor):
            raise ConfigError(f"transform must return a tensor, got {value_words(each)}")
    kinds = {f"{each.dtype} {[*each.shape]}": each for each in made}
    if len(kinds) > 1:
        raise ConfigError(
            f"transform must make all samples alike for a batch, got {' and '.join([*kinds][:2])}; "
            "end it with a resize or crop to one size, and one dtype"
        )
    first = made[0]
    if first.ndim >= 3 and first.stride(-3) == 1:
        return torch.stack([each.movedim(-3, -1) for each in made]).movedim(-1, -3)
    return torch.stack([*made])
