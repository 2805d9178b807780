"""Finding out what must be known of a model before it runs: loads it, and runs it once."""

import sys
from pathlib import Path
from typing import Any

from torch import nn

from headrace.cache.model_facts import model_facts, numerics_facts, preprocess_facts
from headrace.extraction.features.facts import FeatureFacts
from headrace.extraction.features.model import FeatureModel, load_feature_model
from headrace.extraction.features.sampling import Sampling
from headrace.extraction.features.spec import FeatureModelSpec, Numerics, OwnModel
from headrace.models.weights import weight_files
from headrace.models.weights_digest import weights_digest
from headrace.video.content import content_digest

_OF_OTHERS = ("torch", "torchvision")
"""Packages whose modules go by the version of PyTorch, not by what is in their files."""


def measured_facts(
    spec: FeatureModelSpec, sampling: Sampling, numerics: Numerics
) -> tuple[FeatureFacts, list[Path]]:
    """Return what is to be known of a model, and the files that decide its weights.

    Reads all weights: a second for 1 GB.

    Raises:
        ConfigError, BackendError: as `load_feature_model`, or the model cannot be run.
    """
    loaded = load_feature_model(spec, sampling, numerics)
    shape = loaded.probe(sampling.clip_frames)
    weighted = loaded.weighted
    compute = {**numerics_facts(loaded.model.compute), "dtype": numerics.dtype}
    if isinstance(spec, OwnModel):
        return _of_own(spec, loaded, shape, compute), []
    assert weighted is not None
    return (
        FeatureFacts(
            shape=shape,
            layer=loaded.layer,
            origin=loaded.model.origin,
            preprocess=preprocess_facts(spec.prep_level, loaded.model.input, device=numerics.kind),
            model=model_facts(spec.name, weighted, [loaded.layer]),
            numerics=compute,
        ),
        weight_files(spec.name, spec.weights),
    )


def _of_own(
    spec: OwnModel, loaded: FeatureModel, shape: tuple[int, ...], compute: dict[str, Any]
) -> FeatureFacts:
    module, uncached = loaded.weighted, None
    if module is None and loaded.version is None:
        uncached = (
            f"{spec.build} gives no nn.Module and has no attribute version, so its results cannot "
            "be told from those of another; give it one, a text that you change when it changes"
        )
    files = _files_of(spec, module)
    return FeatureFacts(
        shape=shape,
        layer="",
        origin=spec.build,
        preprocess={"size": loaded.size, "device": loaded.model.compute.device},
        model={
            "name": spec.build,
            "version": loaded.version,
            "weights": None if module is None else weights_digest(module),
            "layers": None if module is None else repr(module),
            "code": sorted(content_digest(file) or "" for file in files),
        },
        numerics=compute,
        uncached=uncached,
    )


def _files_of(spec: OwnModel, module: nn.Module | None) -> set[Path]:
    """Return the files in which the function, and the classes of what it built, are written."""
    names = set() if module is None else {type(each).__module__ for each in module.modules()}
    own = {name for name in names if name.partition(".")[0] not in _OF_OTHERS}
    written = (sys.modules.get(name) for name in own | {spec.build.partition(":")[0]})
    files = (getattr(each, "__file__", None) for each in written)
    return {Path(file) for file in files if file is not None}
