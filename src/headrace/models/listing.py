"""List of models, with weights, sizes and input."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, Literal, get_args

import torch
from torchvision import models

from headrace.models.catalogue import (
    AS_THEY_ARE,
    FACE_DETECTOR,
    Task,
    input_of,
    names_of,
    task_of,
)
from headrace.models.faces import weight_files
from headrace.models.mtcnn import FaceCascade
from headrace.preprocess.spec import InputSpec

Kind = Literal["pictures", "clips", "detector"]
"""Input and output of a model: classes of an image, of a clip, or boxes in an image."""

_KINDS: Final[dict[Task, Kind]] = {
    "classification": "pictures",
    "video": "clips",
    "detection": "detector",
}

_FACE_WEIGHTS_BYTES: Final = 1_990_986


@dataclass(frozen=True, kw_only=True)
class ListedModel:
    """Model with its default weights."""

    name: str
    kind: Kind
    parameters: int
    """Weights and biases."""
    input: InputSpec
    """Input of the model."""
    weights: str
    """torchvision's name of the weights, or the package that contains them."""
    weights_bytes: int
    """Size of their file, rounded."""
    is_at_hand: bool
    """Whether the weights are on this machine: in torchvision's cache or an installed package."""


def list_models(patterns: Sequence[str] = ()) -> list[ListedModel]:
    """Return the models that match patterns, by kind and name; no pattern matches all.

    Reads torchvision's metadata; builds no model and reads no weights.

    Args:
        patterns: A model's name; a glob such as "resnet*"; any other text matches names that
            contain it.

    Raises:
        ConfigError: a pattern matches no model.
    """
    known = {name: task for task in get_args(Task) for name in names_of(task)}
    chosen = set(known) if not patterns else set[str]()
    for pattern in patterns:
        named = {pattern} & set(known) or {
            name for name in known if pattern in name or fnmatchcase(name, pattern)
        }
        if not named:
            task_of(pattern)  # suggests similar names
        chosen |= named
    kinds = list(_KINDS)
    ordered = sorted(chosen, key=lambda name: (kinds.index(known[name]), name))
    return [_listed(name, _KINDS[known[name]]) for name in ordered]


def _listed(name: str, kind: Kind) -> ListedModel:
    if name == FACE_DETECTOR:
        return ListedModel(
            name=name,
            kind=kind,
            parameters=sum(weights.numel() for weights in FaceCascade().parameters()),
            input=AS_THEY_ARE,
            weights="facenet-pytorch",
            weights_bytes=_FACE_WEIGHTS_BYTES,
            is_at_hand=weight_files() is not None,
        )
    preset = models.get_model_weights(name).DEFAULT
    file = Path(torch.hub.get_dir()) / "checkpoints" / Path(preset.url).name
    return ListedModel(
        name=name,
        kind=kind,
        parameters=preset.meta["num_params"],
        input=input_of(name, preset),
        weights=str(preset),
        weights_bytes=round(preset.meta["_file_size"] * 2**20),
        is_at_hand=file.is_file(),
    )
