"""A model: what it takes, how it runs, and what it gives."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import torch
from torch import nn

from headrace.models.compute import Compute
from headrace.models.precision_support import autocast_dtype
from headrace.preprocess.spec import InputSpec

Result = TypeVar("Result")
"""What a model gives: `Labels`, `Boxes`, `Features`, or a type of the user's own."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Model(Generic[Result]):
    """A model that is loaded. Not thread-safe: one batch at a time."""

    name: str
    """torchvision's name of it."""
    module: nn.Module
    """In evaluation mode, on `compute.device`."""
    input: InputSpec
    """The pictures or clips it takes."""
    output: Callable[[Any], Result]
    """From what `module` returns to the result."""
    origin: str
    """Where the weights are from, for the record."""
    compute: Compute = field(default_factory=Compute)
    """Where it runs and how; what `prepare` made it ready for."""

    @property
    def num_parameters(self) -> int:
        """Numbers in its weights; buffers, such as means of batches, are not counted."""
        return sum(weights.numel() for weights in self.module.parameters())

    def run(self, batch: torch.Tensor) -> Result:
        """Run the model on a batch, and wait for the result.

        Args:
            batch: float32 [N, 3, H, W], or [N, 3, T, H, W] where it takes clips, as preprocessing
                gives it; on `compute.entry_device`: `transfer` takes it there.

        Returns:
            The result, on the CPU.
        """
        if self.compute.channels_last:
            batch = batch.contiguous(memory_format=channels_last(batch.ndim))
        with self.computing():
            return self.output(self.module(batch))

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Compute inside as `run` does: without gradients, in the precision that was chosen."""
        compute = self.compute
        with ExitStack() as stack:
            stack.enter_context(torch.inference_mode())
            if compute.precision != "float32":
                for device in {compute.device, compute.entry_device}:
                    stack.enter_context(torch.autocast(device, dtype=autocast_dtype(compute)))
            yield


def channels_last(ndim: int) -> torch.memory_format:
    """Return the memory format with the channels last, of pictures (4) or clips (5 dimensions)."""
    return torch.channels_last if ndim == 4 else torch.channels_last_3d
