"""Feature models of torchvision, and their cache keys. Imports torchvision: about 1.5 s."""

from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import torch
from torch import nn

from headrace.errors import ConfigError
from headrace.extraction.features.model_spec import TorchvisionModelSpec
from headrace.models.catalogue import task_of
from headrace.models.checkpoint import weights_digest
from headrace.models.feature_extractor import FeatureExtractor, HeadTap
from headrace.models.load import with_clip_length, with_weights
from headrace.models.model import Model
from headrace.preprocess.levels import Preprocess, build_preprocess, operations
from headrace.preprocess.spec import InputSpec, PrepLevel


def torchvision_parts(
    spec: TorchvisionModelSpec, num_frames: int | None
) -> tuple[Model[torch.Tensor], str, nn.Module, Preprocess]:
    """Return a model that returns features, the layer, the module with the weights, and the
    preprocessing.

    Args:
        spec: Model.
        num_frames: Frames of a clip; None: samples are frames.

    Raises:
        ConfigError: the model or layer is unknown, the weights cannot be read, or the model does
            not accept the samples.
    """
    task_of(spec.name)
    built = with_weights(spec.name, spec.weights)
    if num_frames is None and built.input.num_frames is not None:
        raise ConfigError(
            f"{spec.name} takes clips, not single frames; give --clip-len "
            f"{built.input.num_frames}, or an image model such as resnet50"
        )
    tapped, layer = _tapped(spec, built.module)
    loaded: Model[torch.Tensor] = Model(
        name=spec.name,
        module=tapped.eval(),
        input=built.input,
        output=lambda features: features,
        origin=built.origin,
    )
    # A frame of a clip is preprocessed like a single frame.
    prepare = build_preprocess(spec.prep_level, replace(built.input, num_frames=None))
    return with_clip_length(loaded, num_frames), layer, built.module, prepare


def preprocess_facts(level: PrepLevel, spec: InputSpec, *, device: str = "cpu") -> dict[str, Any]:
    """Return the preprocessing and its kind of device: `ChunkKey.preprocess`."""
    return {
        "device": device,
        "calls": [operation.call for operation in operations(level, spec)],
        "layout": spec.layout,
        "torchvision": version("torchvision"),
    }


def model_facts(name: str, module: nn.Module, layers: Sequence[str]) -> dict[str, Any]:
    """Return name, layers and weights of a model: `ChunkKey.model`. Reads all weights at about
    1 GB a second."""
    return {"name": name, "layers": list(layers), "weights": weights_digest(module)}


def _tapped(spec: TorchvisionModelSpec, module: nn.Module) -> tuple[nn.Module, str]:
    if spec.layer is not None:
        return FeatureExtractor(module, spec.layer), spec.layer
    if task_of(spec.name) == "detection":
        raise ConfigError(
            f"{spec.name} is a detector, without a classifier whose input is the feature; give "
            "--layer, for example backbone.body.layer4"
        )
    pooled = HeadTap(module)
    return pooled, f"input of {pooled.head}"
