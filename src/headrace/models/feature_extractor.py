"""Features of a model: the output of a layer, by name, or the input of its head, its last layer."""

import math
from typing import Any

import numpy as np
import torch
from torch import nn

from headrace.errors import ConfigError, did_you_mean
from headrace.models.outputs import describe_value
from headrace.sampling.counter_rng import CounterRng, RngStream


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
        except _ReachedError as reached:
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
        raise _ReachedError(first)


class _ReachedError(Exception):
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


_SCORING = (nn.Linear, nn.Conv2d, nn.Conv3d)


def head_of(module: nn.Module) -> str:
    """Return the name of the layer that scores the classes: `fc`, `classifier.6`, `heads.head`.

    It is the last linear or convolutional layer, as torchvision's classifiers declare them.

    Raises:
        ConfigError: the model has no such layer.
    """
    layers = [name for name, inner in module.named_modules() if isinstance(inner, _SCORING)]
    if not layers:
        raise ConfigError(
            f"{type(module).__name__} has no linear or convolutional layer that could score "
            "classes; give a classification model of torchvision"
        )
    return layers[-1]


def replace_head(module: nn.Module, num_classes: int, *, seed: int = 0) -> str:
    """Replace the head of a classifier by one for `num_classes`; return its name.

    Weights are uniform within 1 / sqrt(inputs) of 0, drawn from `seed`, and equal on every machine.
    Biases are 0. The weights of a convolutional head are at least 0: its scores pass a ReLU, as in
    SqueezeNet, so a class with only negative scores would never be learned.

    Raises:
        ConfigError: see `head_of`.
    """
    name = head_of(module)
    old = module.get_submodule(name)
    new = _new_layer(old, num_classes)
    with torch.no_grad():
        for part, weights in new.named_parameters():
            weights.copy_(
                _draw_weights(weights.shape, seed) if part == "weight" else weights.zero_()
            )
        if isinstance(new, nn.Conv2d):
            new.weight.abs_()
    module.set_submodule(name, new)
    return name


def _new_layer(old: nn.Module, num_classes: int) -> nn.Module:
    if isinstance(old, nn.Linear):
        options: dict[str, Any] = {"in_features": old.in_features, "out_features": num_classes}
    else:
        options = {"in_channels": old.in_channels, "out_channels": num_classes}
        options |= {name: getattr(old, name) for name in ("kernel_size", "stride", "padding")}
    # Without the layer's own initialization, which would advance PyTorch's generator.
    new: nn.Module = nn.utils.skip_init(  # type: ignore[no-untyped-call]
        type(old),
        bias=old.bias is not None,
        device=old.weight.device,
        dtype=old.weight.dtype,
        **options,
    )
    return new


def _draw_weights(shape: torch.Size, seed: int) -> torch.Tensor:
    draws = CounterRng(seed=seed, epoch=0, purpose=RngStream.HEAD)
    bound = 1 / math.sqrt(math.prod(shape[1:]))
    values = bound * (2 * draws.fractions(np.arange(math.prod(shape))) - 1)
    return torch.from_numpy(values.astype(np.float32)).reshape(shape)


class HeadTap(nn.Module):
    """Classifier that returns the input of its head (see `head_of`): pooled features, float [N, C].

    Time and image dimensions that are left at the head are averaged. SqueezeNet and S3D have some,
    because they average the scores instead. Layers after the head do not run.

    Raises:
        ConfigError: the model has no layer that scores classes.
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
            ConfigError: the model does not run its head.
        """
        try:
            self.module(batch)
        except _ReachedError as reached:
            features = reached.value
            return features.flatten(2).mean(dim=2) if features.ndim > 2 else features.clone()
        raise ConfigError(
            f"layer {self.head} of the model did not run, so it has no input to return as "
            "features; name another layer"
        )


def _end(module: nn.Module, args: tuple[Any, ...]) -> None:
    raise _ReachedError(args[0])
