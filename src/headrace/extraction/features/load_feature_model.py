"""Loading of feature models: custom, or torchvision's, which alone import torchvision."""

import torch

from headrace.errors import BackendError, ConfigError
from headrace.extraction.features.feature_model import FeatureModel, custom_feature_model
from headrace.extraction.features.model_signature import ModelSignature
from headrace.extraction.features.model_spec import FeatureModelSpec, Numerics, OwnModel, SampleSpec
from headrace.models.checkpoint import weights_digest
from headrace.models.compute import Compute
from headrace.models.device import check_available


def load_feature_model(
    spec: FeatureModelSpec,
    sampling: SampleSpec,
    numerics: Numerics,
    facts: ModelSignature | None = None,
) -> FeatureModel:
    """Load a model onto its device.

    Args:
        spec: Model.
        sampling: Samples of the model.
        numerics: Device and precision.
        facts: Signature of an earlier load, to compare the weights with, at about 1 GB a second.

    Raises:
        ConfigError: the model, layer or function is unknown, the weights cannot be read or differ
            from `facts`, or the model does not accept the samples.
        BackendError: the device or precision is not available, or memory is too small.
    """
    compute = Compute(device=numerics.kind, precision=numerics.precision)
    _select_gpu(numerics, compute)
    if isinstance(spec, OwnModel):
        loaded = custom_feature_model(spec, numerics, compute)
    else:
        from headrace.extraction.features.torchvision_model import torchvision_feature_model

        loaded = torchvision_feature_model(spec, sampling, numerics, compute)
    module = loaded.weighted
    if facts is None or module is None or weights_digest(module) == facts.model["weights"]:
        return loaded
    raise ConfigError(
        f"the weights of {loaded.model.name} differ between processes, so its features do not "
        "match; load them from a file, or draw them from a fixed seed"
    )


def _select_gpu(numerics: Numerics, compute: Compute) -> None:
    """Make the requested GPU the current device of this process."""
    check_available(compute, f"device {numerics.device}")
    _, is_numbered, index = numerics.device.partition(":")
    if not is_numbered:
        return
    if int(index) >= torch.cuda.device_count():
        raise BackendError(
            f"device {numerics.device} does not exist: there are {torch.cuda.device_count()} GPUs, "
            "counted from 0; choose another --device"
        )
    torch.cuda.set_device(int(index))
