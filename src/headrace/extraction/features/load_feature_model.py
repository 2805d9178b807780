"""Loading of feature models: the user's own, or torchvision's, which is imported only for these."""

import torch
from torch import nn

from headrace.errors import BackendError, ConfigError
from headrace.extraction.features.feature_model import FeatureModel, custom_feature_model
from headrace.extraction.features.model_signature import ModelSignature
from headrace.extraction.features.model_spec import FeatureModelSpec, Numerics, OwnModel, Sampling
from headrace.models.checkpoint import weights_digest
from headrace.models.compute import Compute
from headrace.models.precision_support import check_available


def load_feature_model(
    spec: FeatureModelSpec,
    sampling: Sampling,
    numerics: Numerics,
    facts: ModelSignature | None = None,
) -> FeatureModel:
    """Load a model onto its device.

    Args:
        spec: Model.
        sampling: Samples of the model.
        numerics: Device and precision.
        facts: Signature of an earlier load, to compare the weights with; reads 1 GB a second.

    Raises:
        ConfigError: the model, layer or function is unknown, the weights cannot be read or differ
            from `facts`, or the model does not accept the samples.
        BackendError: the device or precision is not available, or memory is too small.
    """
    compute = Compute(device=numerics.kind, precision=numerics.precision)
    _enter(numerics, compute)
    if isinstance(spec, OwnModel):
        loaded = custom_feature_model(spec, numerics, compute)
    else:
        from headrace.extraction.features.torchvision_model import torchvision_feature_model

        loaded = torchvision_feature_model(spec, sampling, numerics, compute)
    if facts is not None and loaded.weighted is not None:
        _check_weights(loaded.model.name, loaded.weighted, facts)
    return loaded


def _check_weights(name: str, weighted: nn.Module, facts: ModelSignature) -> None:
    if weights_digest(weighted) != facts.model["weights"]:
        raise ConfigError(
            f"{name} has other weights in this process than in the one before, so features would "
            "not go together; have it load them from a file, or draw them from a fixed seed"
        )


def _enter(numerics: Numerics, compute: Compute) -> None:
    """Select the requested GPU for this process."""
    check_available(compute, f"device {numerics.device}")
    _, is_numbered, index = numerics.device.partition(":")
    if not is_numbered:
        return
    if int(index) >= torch.cuda.device_count():
        raise BackendError(
            f"device {numerics.device} was asked for, and there are {torch.cuda.device_count()} "
            "GPUs, counted from 0; choose another --device"
        )
    torch.cuda.set_device(int(index))
