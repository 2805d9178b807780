"""From the pixels of a step to the pictures that the training loop is given."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias, TypeVar, overload

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.models.transfer import CopyStream
from headrace.runtime.forks import check_cuda_after_fork
from headrace.training.copying import BesideTheWork, Copying
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
    """Whether they go to page-locked memory, and from there to a GPU beside what it works on."""
    copying: Copying[Any] | None = None
    """What copies them from there to a GPU; None: a stream of PyTorch's."""

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
        On a GPU they are ready for what the caller asks of its current stream next.

        Raises:
            BackendError: CUDA is needed, in a process that was forked from one that uses it.
        """
        self._check_fork()
        if isinstance(pixels, list):
            moved = iter(self._moved([_colour_first(each) for row in pixels for each in row]))
            return [[next(moved) for _ in row] for row in pixels]
        return self._moved([_colour_first(pixels)])[0]

    def _moved(self, pictures: list[torch.Tensor]) -> list[torch.Tensor]:
        """Return the pictures of a batch where they are to be."""
        if self._beside is not None:
            return self._beside(pictures)
        if self.pin_memory:
            pictures = [each.pin_memory() for each in pictures]
        if self.device is not None:
            pictures = [each.to(self.device, non_blocking=self.pin_memory) for each in pictures]
        return pictures

    @cached_property
    def _beside(self) -> BesideTheWork | None:
        """What copies to a GPU while that is at work; None: batches do not go to one so."""
        if self.copying is not None:
            return BesideTheWork(self.copying)
        if self.device is None or not (self._is_cuda and self.pin_memory):
            return None
        return BesideTheWork(CopyStream(self.device))

    @property
    def _is_cuda(self) -> bool:
        return self.device is not None and torch.device(self.device).type == "cuda"

    def _check_fork(self) -> None:
        """Do nothing if batches can go where they are to, as far as forks go: BackendError."""
        if self.pin_memory or self._is_cuda:
            where = self.device if self._is_cuda else "page-locked memory"
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


def _colour_first(pixels: _AnyPixels) -> torch.Tensor:
    """Return a view of pixels [..., H, W, 3] as [..., 3, H, W]."""
    return torch.as_tensor(pixels).movedim(-1, -3)
