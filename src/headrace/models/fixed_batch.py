"""Batches of one size for a model that was compiled for it."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn


class FixedBatch(nn.Module):
    """A module that gets batches of one size only: shorter ones are filled up with zeros.

    For another size torch.compile would make other code, in the middle of a run. What the zeros
    give is cut off; larger batches go through as they are.
    """

    def __init__(self, module: nn.Module, batch_size: int) -> None:
        """Run `module` on batches of `batch_size`, along their first dimension."""
        super().__init__()
        self.module = module
        self.batch_size = batch_size

    def forward(self, batch: torch.Tensor) -> Any:
        """Return what the module gives for `batch`, [N, ...]."""
        count = len(batch)
        if count >= self.batch_size:
            return self.module(batch)
        zeros = batch.new_zeros(self.batch_size - count, *batch.shape[1:])
        return _first(self.module(torch.cat([batch, zeros])), count)


def _first(output: Any, count: int) -> Any:
    if isinstance(output, Mapping):
        return {name: _first(value, count) for name, value in output.items()}
    return output[:count]
