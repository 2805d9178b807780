"""Names of `bench/config.py` as they were, until all benchmarks take the new ones."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace.bench.config import (
    SMALL_MODEL,
    USUAL_MODEL,
    BatchSize,
    ModelName,
    OnDevice,
    Prepared,
    Repeats,
    Threads,
    TurnSeconds,
    Weights,
    allowed_difference,
    indexes_of,
)
from headrace.errors import ConfigError
from headrace.models.precision import Device
from headrace.preprocess.spec import PrepLevel

if TYPE_CHECKING:
    from headrace.runs.options import ComputeOptions

__all__ = [
    "SMALL_MODEL",
    "USUAL_MODEL",
    "BatchSize",
    "Device",
    "ModelName",
    "OnDevice",
    "PrepLevel",
    "Prepared",
    "Repeats",
    "Threads",
    "TurnSeconds",
    "Weights",
    "allowed_difference",
    "check_one",
    "compute_of",
    "indexes_of",
]


def compute_of(choice: Any, batch_size: int = 1) -> "ComputeOptions":
    """Return the choice as a run takes it."""
    from headrace.runs.options import ComputeOptions

    return ComputeOptions(
        model_name=choice.model_name,
        weights=choice.weights,
        batch_size=batch_size,
        prep_level=choice.prep_level,
        device=choice.device,
        threads=choice.threads,
    )


def check_one(videos: Sequence[str], experiment: str) -> None:
    """Refuse several videos.

    Raises:
        ConfigError: there are more than one.
    """
    if len(videos) > 1:
        raise ConfigError(
            f"bench {experiment} takes one video, got {len(videos)}: {videos[0]}, {videos[1]}"
            f"{', ...' if len(videos) > 2 else ''}"
        )
