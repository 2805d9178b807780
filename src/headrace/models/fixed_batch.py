"""Batches of one size and layout for a model that was compiled for them."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn


class FixedBatch(nn.Module):
    """A module that gets batches of one size, one layout and one kind of tensor only.

    For any other torch.compile would make other code, in the middle of a run. Shorter batches are
    filled up with zeros, and what these give is cut off; larger ones keep their size. All are
    copied: preprocessing gives them with the channels last, and as tensors of another kind than
    those that are made in inference mode.
    """

    def __init__(
        self,
        module: nn.Module,
        batch_size: int,
        layout: torch.memory_format = torch.contiguous_format,
    ) -> None:
        """Run `module` on batches of `batch_size`, along their first dimension, in a layout."""
        super().__init__()
        self.training = module.training
        self.module = module
        self.batch_size = batch_size
        self.layout = layout

    def forward(self, batch: torch.Tensor) -> Any:
        """Return what the module gives for `batch`, [N, ...]."""
        count = len(batch)
        if count >= self.batch_size:
            return self.module(batch.clone(memory_format=self.layout))
        zeros = batch.new_zeros(self.batch_size - count, *batch.shape[1:])
        filled = torch.cat([batch, zeros]).clone(memory_format=self.layout)
        return _first(self.module(filled), count)


def _first(output: Any, count: int) -> Any:
    if isinstance(output, Mapping):
        return {name: _first(value, count) for name, value in output.items()}
    return output[:count]
