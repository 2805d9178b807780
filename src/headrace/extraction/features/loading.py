"""The engine of a worker, on a device that no other worker has."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from headrace.decode.decoding import Decoding
from headrace.extraction.features.engine import FeatureEngine
from headrace.extraction.features.model import load_feature_model
from headrace.extraction.features.sampling import Sampling
from headrace.extraction.features.spec import model_of_asked, numerics_of_asked
from headrace.extraction.features.working import EngineNeeds, do_features
from headrace.runtime.child import Json
from headrace.runtime.lock import file_lock


def do_loaded_features(argument: Mapping[str, Any], send: Callable[[Json], None]) -> None:
    """Do chunks of features until none is left; nothing, where others have all GPUs."""
    with _device(argument) as device:
        if device is not None:
            do_features(argument, send, partial(_engine, device))


def _engine(device: str, needs: EngineNeeds) -> FeatureEngine:
    asked = needs.request.asked
    sampling = Sampling.of_asked(asked)
    numerics = replace(numerics_of_asked(asked), device=device)
    model = load_feature_model(model_of_asked(asked), sampling, numerics, needs.facts)
    if model.state is not None and model.version is None:
        differing = model.state.differences(needs.facts.model["attributes"])
        if differing:
            needs.hooks.on_other_state(differing)
    return FeatureEngine(
        model,
        sampling,
        needs.effort,
        index_of=needs.index_of,
        decoding=_decoding(needs.decode, device),
        on_error=needs.on_error,
        shape=needs.facts.shape,
        worker=needs.worker,
        hooks=needs.hooks,
    )


def _decoding(way: str, device: str) -> Decoding:
    """Return what decodes for a worker on a device: on its own GPU, unless another is named."""
    decoding = Decoding.named(way)
    is_own = way.endswith("cuda") and device.startswith("cuda:")
    return replace(decoding, device=device) if is_own else decoding


@contextmanager
def _device(argument: Mapping[str, Any]) -> Iterator[str | None]:
    """Yield what this process computes on: a GPU that no other worker has; None: there is none."""
    asked = str(argument["device"])
    # Without claims it has what it sees to itself: Ray shows an actor its own GPU alone.
    if asked != "cuda" or torch.cuda.device_count() == 0 or "claims" not in argument:
        yield asked
        return
    with ExitStack() as kept:
        for number in range(torch.cuda.device_count()):
            lock = Path(argument["claims"]) / f"gpu-{number}"
            if kept.enter_context(file_lock(lock)):
                yield f"cuda:{number}"
                return
        yield None
