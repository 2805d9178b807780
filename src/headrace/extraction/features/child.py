"""What child processes run for features: PyTorch is loaded there, and not by who starts them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.errors import BackendError, ConfigError, HeadraceError
from headrace.extraction.features.facts import FeatureFacts
from headrace.extraction.features.known_facts import KnownFacts
from headrace.extraction.features.sampling import Sampling
from headrace.extraction.features.spec import (
    FeatureModelSpec,
    Numerics,
    asked_of,
    model_of_asked,
    numerics_of_asked,
)
from headrace.records import from_dict, to_dict
from headrace.runtime.child import Call, Json
from headrace.runtime.children import run_children


def feature_facts(
    spec: FeatureModelSpec, sampling: Sampling, numerics: Numerics, known: KnownFacts
) -> FeatureFacts:
    """Return what is to be known of a model before it runs, without loading PyTorch here.

    What is not known yet a child process finds out: it loads the model and runs it once, some
    seconds; then it is kept.

    Raises:
        ConfigError: there is no such model, layer or function, its weights cannot be had, or it
            takes no such samples.
        BackendError: the device is missing, or memory, or the model ends its process.
        KeyboardInterrupt: somebody pressed Ctrl-C.
    """
    found = known.find(spec, sampling, numerics)
    if found is not None:
        return found
    asked: dict[str, Json] = {**asked_of(spec, numerics), **sampling.asked()}
    asked["device"] = numerics.device  # which of several
    [ending] = run_children([Call(name="the model", function=measure_facts, argument=asked)])
    told: Any = ending.result
    if not ending.is_good:
        raise BackendError(
            f"{ending.describe()}; it could not be loaded and run once, use another one"
        )
    if "error" in told:
        raise (BackendError if told["is_backend"] else ConfigError)(told["error"])
    facts = from_dict(FeatureFacts, told["facts"], file="what the model tells")
    known.keep(spec, sampling, numerics, facts, [Path(file) for file in told["files"]])
    return facts


def measure_facts(argument: Json, send: Callable[[Json], None]) -> Json:
    """Find out what is to be known of a model: a `ChildFunction`."""
    from headrace.extraction.features.measured_facts import measured_facts

    assert isinstance(argument, dict)
    asked: Any = argument
    try:
        facts, files = measured_facts(
            model_of_asked(asked), Sampling.of_asked(asked), numerics_of_asked(asked)
        )
    except HeadraceError as error:
        return {"error": str(error), "is_backend": isinstance(error, BackendError)}
    return {"facts": to_dict(facts), "files": [str(file) for file in files]}


def extract_features(argument: Json, send: Callable[[Json], None]) -> Json:
    """Do chunks of features until none is left: a `ChildFunction`.

    What ends the whole run (no room on the disk, a model that cannot run, a bad frame where those
    are errors) is said, and ends this worker.
    """
    from headrace.extraction.features.loading import do_loaded_features

    assert isinstance(argument, dict)
    do_loaded_features(argument, send)
    return None
