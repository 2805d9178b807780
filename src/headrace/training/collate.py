"""From the pixels of a step to the pictures that the training loop is given."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar, overload

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.runtime.forks import check_cuda_after_fork
from headrace.training.devices import check_device
from headrace.training.named_tensors import NamedTensors
from headrace.training.transforms import (
    BatchTransform,
    Transform,
    check_transforms,
    stacked,
    transformed_each,
)

_AnyPixels: TypeAlias = NDArray[np.uint8] | torch.Tensor
_Batch = TypeVar("_Batch", bound=NamedTensors)


@dataclass(frozen=True, kw_only=True)
class Collate:
    """What happens to the pictures of every batch: pinned and moved, then transformed."""

    transform: Transform | None = None
    """Of each sample."""
    batch_transform: BatchTransform | None = None
    """Of the frames of all samples together, after it."""
    device: torch.device | str | None = None
    """None leaves them on the CPU."""
    pin_memory: bool = False

    def __post_init__(self) -> None:
        check_device(self.device, self.pin_memory)
        check_transforms(self.transform, self.batch_transform)

    @overload
    def pictures(self, pixels: _AnyPixels) -> torch.Tensor: ...
    @overload
    def pictures(self, pixels: list[list[_AnyPixels]]) -> list[list[torch.Tensor]]: ...
    def pictures(
        self, pixels: _AnyPixels | list[list[_AnyPixels]]
    ) -> torch.Tensor | list[list[torch.Tensor]]:
        """Return pixels [..., H, W, 3] as [..., 3, H, W], or each of a list of them.

        They share the memory of `pixels`, which become their own, unless they are pinned or moved.

        Raises:
            BackendError: CUDA is needed, in a process that was forked from one that uses it.
        """
        if isinstance(pixels, list):
            return [[self.pictures(each) for each in row] for row in pixels]
        self._check_fork()
        pictures = torch.as_tensor(pixels).movedim(-1, -3)
        if self.pin_memory:
            pictures = pictures.pin_memory()
        if self.device is not None:
            pictures = pictures.to(self.device, non_blocking=self.pin_memory)
        return pictures

    def _check_fork(self) -> None:
        """Do nothing if batches can go where they are to, as far as forks go: BackendError."""
        is_cuda = self.device is not None and torch.device(self.device).type == "cuda"
        if self.pin_memory or is_cuda:
            where = self.device if is_cuda else "page-locked memory"
            check_cuda_after_fork(f"batches were to go to {where}")

    def transformed(self, batch: _Batch, seeds: Callable[[], Iterable[int]]) -> _Batch:
        """Return a batch whose `frames` are transformed; the very one, if nothing is asked for.

        Args:
            batch: Its frames are a tensor, or, of each sample, a list of tensors: each picture of
                such a list is transformed by itself, by the same chance, and empty ones are not.
            seeds: Gives the seed of each sample.

        Raises:
            ConfigError: `transform` makes samples that are no batch, or `batch_transform` is
                asked for where there is no tensor of all frames.
        """
        frames = batch["frames"]
        if self.transform is not None:
            others = type(batch)({n: each for n, each in batch.items() if n != "frames"})
            samples = [others.sample(place) for place in range(len(batch))]
            if isinstance(frames, list):
                rows = zip(frames, samples, seeds(), strict=True)
                frames = [self._row(row, sample, seed) for row, sample, seed in rows]
            else:
                frames = stacked(transformed_each(self.transform, frames, samples, seeds()))
        if self.batch_transform is not None:
            if isinstance(frames, list):
                raise ConfigError(
                    "batch_transform is given one tensor of all frames, and pictures of different "
                    "sizes are none; use transform, or ragged='pad'"
                )
            frames = self.batch_transform(frames)
        batch["frames"] = frames
        return batch

    def _row(
        self, pictures: list[torch.Tensor], sample: dict[str, object], seed: int
    ) -> list[torch.Tensor]:
        assert self.transform is not None
        there = [each for each in pictures if each.numel()]
        made = iter(
            transformed_each(self.transform, there, [sample] * len(there), [seed] * len(there))
        )
        return [next(made) if each.numel() else each for each in pictures]
