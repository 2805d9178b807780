"""A loaded model: input, run and output."""

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
"""Result of a model: `Labels`, `Boxes`, or a custom type."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Model(Generic[Result]):
    """Loaded model. Not thread-safe: runs one batch at a time."""

    name: str
    """torchvision's name."""
    module: nn.Module
    """In evaluation mode, on `compute.device`."""
    input: InputSpec
    output: Callable[[Any], Result]
    """Converts the output of `module` to the result."""
    origin: str
    """Origin of the weights, for the record."""
    compute: Compute = field(default_factory=Compute)
    """Device and settings, set by `prepare`."""

    @property
    def num_parameters(self) -> int:
        """Number of parameters, without buffers such as running means."""
        return sum(weights.numel() for weights in self.module.parameters())

    def run(self, batch: torch.Tensor) -> Result:
        """Run the model on a batch, and wait for the result.

        Args:
            batch: Preprocessed batch, float32 [N, 3, H, W] or, for clips, [N, 3, T, H, W], on
                `compute.entry_device`.

        Returns:
            The result, on the CPU.
        """
        with self.computing():
            return self.output(self.module(batch))

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Run the block as `run` does: without gradients, in the chosen precision."""
        compute = self.compute
        with ExitStack() as stack:
            stack.enter_context(torch.inference_mode())
            if compute.precision != "float32":
                for device in {compute.device, compute.entry_device}:
                    stack.enter_context(torch.autocast(device, dtype=autocast_dtype(compute)))
            yield
