"""Features of a model: the output of one of its layers, by name."""

from typing import Any

import torch
from torch import nn

from headrace.errors import ConfigError, did_you_mean
from headrace.models.outputs import describe_value


class FeatureExtractor(nn.Module):
    """Model that returns the output of one of its layers, and stops after it.

    Layers are named as in `named_modules()`: "layer4" of a ResNet, "features.18" of a MobileNetV2,
    "encoder.layers.encoder_layer_11" of a ViT. For a layer that runs several times, it is the
    first output; for a layer with several outputs, the first tensor.

    Raises:
        ConfigError: the layer is unknown; in a call: it did not run, or returned no tensor.
    """

    def __init__(self, module: nn.Module, layer: str) -> None:
        super().__init__()
        self.module = module
        self._layer = layer
        find_layer(module, layer).register_forward_hook(self._end)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """Return the output of the layer for a batch."""
        try:
            self.module(batch)
        except ReachedError as reached:
            return reached.value.clone()
        raise ConfigError(
            f"layer {self._layer} of the model did not run: it is for training only; "
            "choose another layer"
        )

    def _end(self, module: nn.Module, args: Any, output: Any) -> None:
        first = output[0] if isinstance(output, tuple | list) and output else output
        if not isinstance(first, torch.Tensor):
            raise ConfigError(
                f"layer {self._layer} returned {describe_value(first)}, not a tensor; "
                "choose a layer inside it"
            )
        raise ReachedError(first)


class ReachedError(Exception):
    """Raised to stop a model at one of its layers; holds a tensor of the layer."""

    def __init__(self, value: torch.Tensor) -> None:
        super().__init__()
        self.value = value


def find_layer(module: nn.Module, layer: str) -> nn.Module:
    """Return a layer of a model by its name in `named_modules()`.

    Raises:
        ConfigError: the layer is unknown; the message names similar layers.
    """
    known = {name: inner for name, inner in module.named_modules() if name}
    if layer in known:
        return known[layer]
    top = ", ".join(name for name in known if "." not in name)
    advice = did_you_mean(layer, known) or f"its layers are {top}"
    raise ConfigError(
        f"the model has no layer {layer!r}; {advice} ({len(known)} with inner layers)"
    )
