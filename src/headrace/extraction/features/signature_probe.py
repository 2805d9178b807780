"""Measurement of a model's signature: loads the model and runs it once. Imports PyTorch."""

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import nn

from headrace.extraction.extraction_options import name_list
from headrace.extraction.features.feature_model import FeatureModel
from headrace.extraction.features.load_feature_model import load_feature_model
from headrace.extraction.features.model_signature import ModelSignature
from headrace.extraction.features.model_spec import FeatureModelSpec, Numerics, OwnModel, SampleSpec
from headrace.extraction.features.own_state import imported_code
from headrace.models.checkpoint import weights_digest
from headrace.models.compute import Compute
from headrace.models.evaluation_mode import is_training
from headrace.models.load import weight_files
from headrace.preprocess.levels import operations
from headrace.preprocess.spec import InputSpec, PrepLevel


def measure_signature(
    spec: FeatureModelSpec, sampling: SampleSpec, numerics: Numerics
) -> tuple[ModelSignature, list[Path]]:
    """Return the signature of a model, and the files that determine its weights.

    Reads all weights: about 1 GB a second.

    Raises:
        ConfigError, BackendError: see `load_feature_model`; or the model cannot run.
    """
    loaded = load_feature_model(spec, sampling, numerics)
    common: dict[str, Any] = {
        "shape": loaded.probe(sampling.clip_frames),
        "layer": loaded.layer,
        "origin": loaded.model.origin,
        "numerics": {**numerics_facts(loaded.model.compute), "dtype": numerics.dtype},
    }
    if isinstance(spec, OwnModel):
        return _custom_signature(spec, loaded, common), []
    assert loaded.weighted is not None
    preprocess = preprocess_facts(spec.prep_level, loaded.model.input, device=numerics.kind)
    model = model_facts(spec.name, loaded.weighted, [loaded.layer])
    facts = ModelSignature(**common, preprocess=preprocess, model=model)
    return facts, weight_files(spec.name, spec.weights)


def _custom_signature(
    spec: OwnModel, loaded: FeatureModel, common: dict[str, Any]
) -> ModelSignature:
    module, state = loaded.weighted, loaded.state
    kinds = [] if module is None else map(type, module.modules())
    modules = {spec.build.partition(":")[0], *(kind.__module__ for kind in kinds)}
    return ModelSignature(
        **common,
        preprocess={"size": loaded.size, "device": loaded.model.compute.device},
        model={
            "name": spec.build,
            "version": loaded.version,
            "weights": None if module is None else weights_digest(module),
            "attributes": None if state is None else state.attributes,
            "code": imported_code({name.partition(".")[0] for name in modules}),
        },
        uncached=_uncached(spec, loaded),
        is_training=is_training(module),
    )


def _uncached(spec: OwnModel, loaded: FeatureModel) -> str | None:
    """Return the reason results of a model have no cache key; None: they have a key."""
    if loaded.version is not None or (loaded.state is not None and not loaded.state.unstable):
        return None
    problem = "is not an nn.Module"
    if loaded.state is not None:
        names = name_list(loaded.state.unstable)
        problem = f"has attributes that cannot be compared between runs, {names},"
    return (
        f"{spec.build} {problem} and has no attribute version; add one, a text that you change "
        "whenever its results change"
    )


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
        "is_channels_last": False,  # stays part of the keys
        "torch": torch.__version__,
    }
    if compute.device == "cuda":
        facts["generation"] = list(torch.cuda.get_device_capability())
        facts["float32"] = torch.get_float32_matmul_precision()
        facts["tf32_convolutions"] = bool(torch.backends.cudnn.allow_tf32)
    return facts
