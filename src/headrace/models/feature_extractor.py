"""Outputs of layers inside a model, by the layers' names."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import nn

from headrace.errors import ConfigError
from headrace.models.value_words import value_words

_SHOWN = 3


class FeatureExtractor(nn.Module):
    """Model that returns the outputs of the given layers, and stops after the last of them.

    Layers are named as in `named_modules()`: "layer4" of a ResNet, "features.18" of a MobileNetV2,
    "encoder.layers.encoder_layer_11" of a ViT. A layer that runs several times returns its first
    output; a layer with several outputs, its first tensor. torch.compile compiles the model as one
    graph.

    Raises:
        ConfigError: a layer is unknown, or no layer is given; in a run: a layer did not run, or
            returns no tensor.
    """

    def __init__(self, module: nn.Module, layers: Sequence[str]) -> None:
        super().__init__()
        known = {name: inner for name, inner in module.named_modules() if name}
        for layer in layers:
            if layer not in known:
                raise ConfigError(no_such_layer(layer, known))
        if not layers:
            raise ConfigError(f"no layer was asked for; there are {', '.join(_top(known))}")
        self.module = module
        self._layers = tuple(dict.fromkeys(layers))
        self._found: dict[str, torch.Tensor] = {}
        for layer in self._layers:
            known[layer].register_forward_hook(self._keep(layer))

    def forward(self, batch: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return layer name -> output, in the order of the layers."""
        self._found = {}
        with suppress(_AllFoundError):
            self.module(batch)
        outputs, self._found = self._found, {}
        missing = [layer for layer in self._layers if layer not in outputs]
        if missing:
            raise ConfigError(
                f"the model did not run its layer {missing[0]}, which serves training only; "
                "choose another"
            )
        return {layer: outputs[layer] for layer in self._layers}

    def _keep(self, layer: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(module: nn.Module, given: Any, output: Any) -> None:
            if layer in self._found:
                return
            first = output[0] if isinstance(output, tuple | list) and output else output
            if not isinstance(first, torch.Tensor):
                raise ConfigError(
                    f"layer {layer} gives {value_words(first)}, not a tensor; "
                    "choose a layer inside it"
                )
            # A copy: the next layer may work in place, for example a ReLU.
            self._found[layer] = first.clone()
            if len(self._found) == len(self._layers):
                raise _AllFoundError

        return hook


class _AllFoundError(Exception):
    """Stops a model after the last requested layer."""


def no_such_layer(layer: str, known: Mapping[str, nn.Module]) -> str:
    """Return the message for a layer that is not in `known`, by name."""
    close = difflib.get_close_matches(layer, known, n=_SHOWN)
    advice = f"did you mean {', '.join(close)}?" if close else f"there are {', '.join(_top(known))}"
    return f"the model has no layer {layer!r}; {advice} ({len(known)} with those inside them)"


def _top(known: Mapping[str, nn.Module]) -> list[str]:
    return [name for name in known if "." not in name]
