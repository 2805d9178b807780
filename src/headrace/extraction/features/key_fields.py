"""Groups of a key that depend on the model. Imports PyTorch."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import torch
from torch import nn

from headrace.models.checkpoint import weights_digest
from headrace.models.compute import Compute
from headrace.preprocess.operations import operations
from headrace.preprocess.spec import InputSpec, PrepLevel


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


def numerics_facts(compute: Compute) -> dict[str, Any]:
    """Return the settings that change the last digits of a result: `ChunkKey.numerics`.

    For a GPU, this includes its generation, because kernels differ, and whether float32 is
    computed with reduced precision. The batch size is left out.
    """
    facts: dict[str, Any] = {
        "precision": compute.precision,
        "device": compute.device,
        "split_layer": compute.split_layer,
        "is_compiled": compute.compile,
        "is_channels_last": compute.channels_last,
        "torch": torch.__version__,
    }
    if compute.device == "cuda":
        facts["generation"] = list(torch.cuda.get_device_capability())
        facts["float32"] = torch.get_float32_matmul_precision()
        facts["tf32_convolutions"] = bool(torch.backends.cudnn.allow_tf32)
    return facts
