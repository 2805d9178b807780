"""From the pixels of a step to the pictures that the training loop is given."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeAlias, TypeVar, overload

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.loaders.devices import check_device
from headrace.loaders.named_tensors import NamedTensors
from headrace.loaders.transforms import (
    BatchTransform,
    Transform,
    check_transforms,
    stacked,
    transformed_each,
)
from headrace.models.transfer import CopyStream
from headrace.runtime.fork_safety import check_cuda_after_fork


class Mark(Protocol):
    """A point in what a GPU was asked for."""

    def synchronize(self) -> None:
        """Wait until the GPU has come to it."""
        ...


MarkOf = TypeVar("MarkOf", bound=Mark)


class Copying(Protocol[MarkOf]):
    """A GPU that copies beside its other work, as `CopyStream` has it."""

    def mark(self) -> MarkOf:
        """Return a mark behind all that the caller has asked of the GPU so far."""
        ...

    def begin(self, tensors: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], MarkOf]:
        """Begin to copy tensors of the CPU; return those on the GPU, and the end of the copy."""
        ...

    def hand_over(self, tensors: Sequence[torch.Tensor], copied: MarkOf) -> None:
        """Let what the caller asks for next wait for a copy, without waiting for it here."""
        ...


class CudaPrefetcher:
    """Takes the pictures of each batch to a GPU beside its work on the batch before.

    The GPU holds two batches: the one it works on, and the one that is copied. For that the copy
    begins when the work on the batch before the last is done. A loop that asks for work faster than
    the GPU does it would otherwise have batch after batch copied, as its memory is not free again
    before the work on it is done. So the process is at most one step ahead of the GPU.
    """

    def __init__(self, copying: Copying[MarkOf]) -> None:
        """Copy nothing yet."""
        self._copying = copying
        self._before: Mark | None = None
        """Behind the work on the batch before the last."""

    def __call__(self, pictures: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return the pictures of a batch on the GPU, for what the caller asks of it next."""
        asked = self._copying.mark()
        if self._before is not None:
            self._before.synchronize()
        self._before = asked
        moved, copied = self._copying.begin(pictures)
        self._copying.hand_over(moved, copied)
        return moved


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
    def _beside(self) -> CudaPrefetcher | None:
        """What copies to a GPU while that is at work; None: batches do not go to one so."""
        if self.copying is not None:
            return CudaPrefetcher(self.copying)
        if self.device is None or not (self._is_cuda and self.pin_memory):
            return None
        return CudaPrefetcher(CopyStream(self.device))

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
