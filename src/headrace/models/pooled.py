"""What the classifier of a model is given: its pooled features."""

from typing import Any

import torch
from torch import nn

from headrace.errors import ConfigError
from headrace.models.head import head_of


class HeadTap(nn.Module):
    """A classifier that gives what its last layer, which scores the classes, is given.

    float [N, features]. One rule for all classifiers of torchvision: the layer is that of
    `head_of`, and what it is given is averaged over time and picture where it still has these, as
    in SqueezeNet and S3D, which average scores instead. Nothing behind it is run.

    Raises:
        ConfigError: the model has no layer that scores classes; name one of its layers instead.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.head = head_of(module)
        """Name of the layer that scores the classes."""
        module.get_submodule(self.head).register_forward_pre_hook(_end)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """Return the pooled features [N, features] of a batch.

        Raises:
            ConfigError: the model does not come to its head.
        """
        try:
            self.module(batch)
        except _ReachedError as reached:
            features = reached.features
            return features.flatten(2).mean(dim=2) if features.ndim > 2 else features.clone()
        raise ConfigError(
            f"the model did not run its layer {self.head}, whose input the features should be; "
            "name another layer"
        )


class _ReachedError(Exception):
    """Ends the run of a model: carries what its head is given."""

    def __init__(self, features: torch.Tensor) -> None:
        super().__init__()
        self.features = features


def _end(module: nn.Module, given: tuple[Any, ...]) -> None:
    raise _ReachedError(given[0])
