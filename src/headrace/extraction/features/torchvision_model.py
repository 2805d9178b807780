"""Feature model of torchvision, with its preprocessing. Imports torchvision: about 1.5 s."""

from dataclasses import replace

import torch
from torch import nn

from headrace.errors import ConfigError
from headrace.extraction.features.feature_model import FeatureModel
from headrace.extraction.features.model_spec import Numerics, SampleSpec, TorchvisionModelSpec
from headrace.models.catalogue import task_of
from headrace.models.compute import Compute
from headrace.models.feature_extractor import FeatureExtractor, HeadTap
from headrace.models.load import with_clip_length, with_weights
from headrace.models.model import Model, place_model
from headrace.preprocess.levels import build_preprocess


def torchvision_feature_model(
    spec: TorchvisionModelSpec, sampling: SampleSpec, numerics: Numerics, compute: Compute
) -> FeatureModel:
    """Return a model of torchvision on its device, with its preprocessing.

    Raises:
        ConfigError: the model or layer is unknown, the weights cannot be read, or the model does
            not accept the samples.
    """
    task_of(spec.name)
    built = with_weights(spec.name, spec.weights)
    num_frames = sampling.clip_frames
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
    return FeatureModel(
        model=place_model(with_clip_length(loaded, num_frames), compute),
        layer=layer,
        # A frame of a clip is preprocessed like a single frame.
        prepare=build_preprocess(spec.prep_level, replace(built.input, num_frames=None)),
        size=None,
        numerics=numerics,
        weighted=built.module,
    )


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
