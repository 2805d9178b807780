"""Measurement of a model's signature: loads the model and runs it once."""

from pathlib import Path
from typing import Any

from headrace.extraction.features.feature_model import FeatureModel
from headrace.extraction.features.key_fields import (
    model_facts,
    numerics_facts,
    preprocess_facts,
)
from headrace.extraction.features.load_feature_model import load_feature_model
from headrace.extraction.features.model_signature import ModelSignature
from headrace.extraction.features.model_spec import FeatureModelSpec, Numerics, OwnModel, Sampling
from headrace.extraction.features.own_state import imported_code
from headrace.models.checkpoint import weights_digest
from headrace.models.evaluation_mode import is_training
from headrace.models.load_weights import weight_files

_NAMED = 3
"""Max attributes named in a message."""


def measured_facts(
    spec: FeatureModelSpec, sampling: Sampling, numerics: Numerics
) -> tuple[ModelSignature, list[Path]]:
    """Return the signature of a model, and the files that determine its weights.

    Reads all weights: about 1 GB a second.

    Raises:
        ConfigError, BackendError: see `load_feature_model`; or the model cannot run.
    """
    loaded = load_feature_model(spec, sampling, numerics)
    shape = loaded.probe(sampling.clip_frames)
    weighted = loaded.weighted
    compute = {**numerics_facts(loaded.model.compute), "dtype": numerics.dtype}
    if isinstance(spec, OwnModel):
        return _of_own(spec, loaded, shape, compute), []
    assert weighted is not None
    return (
        ModelSignature(
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
) -> ModelSignature:
    module, state = loaded.weighted, loaded.state
    kinds = [] if module is None else map(type, module.modules())
    written = {spec.build.partition(":")[0], *(kind.__module__ for kind in kinds)}
    return ModelSignature(
        shape=shape,
        layer="",
        origin=spec.build,
        preprocess={"size": loaded.size, "device": loaded.model.compute.device},
        model={
            "name": spec.build,
            "version": loaded.version,
            "weights": None if module is None else weights_digest(module),
            "attributes": None if state is None else state.attributes,
            "code": imported_code({name.partition(".")[0] for name in written}),
        },
        numerics=compute,
        uncached=_uncached(spec, loaded),
        is_training=is_training(module),
    )


def _uncached(spec: OwnModel, loaded: FeatureModel) -> str | None:
    """Return the reason results of a model have no cache key; None: they have a key."""
    if loaded.version is not None or (loaded.state is not None and not loaded.state.unstable):
        return None
    what = "gives no nn.Module and has no attribute version"
    if loaded.state is not None:
        names = loaded.state.unstable
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        what = (
            f"has no attribute version, and what it keeps in {', '.join(names[:_NAMED])}{more} "
            "cannot be compared between runs"
        )
    return (
        f"{spec.build} {what}, so its results cannot be told from those of another; give it "
        "one, a text that you change when it changes"
    )
