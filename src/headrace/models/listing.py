"""List of models: weights, size and input of each."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, Literal, get_args

import torch
from torchvision import models

from headrace.models.catalogue import (
    DETECTOR_INPUT,
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
"""Kind of a model: classes of an image, classes of a clip, or boxes in an image."""

_KINDS: Final[dict[Task, Kind]] = {
    "classification": "pictures",
    "video": "clips",
    "detection": "detector",
}

_FACE_WEIGHTS_BYTES: Final = 1_990_986
"""Total size of MTCNN's three weight files."""


@dataclass(frozen=True, kw_only=True)
class ListedModel:
    """Model with its default weights."""

    name: str
    kind: Kind
    parameters: int
    """Number of weights and biases."""
    input: InputSpec
    weights: str
    """torchvision's name of the weights, or the package that contains them."""
    weights_bytes: int
    """Size of the weights file, rounded."""
    is_at_hand: bool
    """Whether the weights are on this machine: in torchvision's cache or an installed package."""


def list_models(patterns: Sequence[str] = ()) -> list[ListedModel]:
    """Return the models that match any pattern, by kind and name; without patterns, all.

    Reads torchvision's metadata only: builds no model, reads no weights.

    Args:
        patterns: Each is a model name, a glob such as "resnet*", or a part of names.

    Raises:
        ConfigError: a pattern matches no model.
    """
    known = {name: task for task in get_args(Task) for name in names_of(task)}
    selected = set(known) if not patterns else set[str]()
    for pattern in patterns:
        matches = {pattern} & set(known) or {
            name for name in known if pattern in name or fnmatchcase(name, pattern)
        }
        if not matches:
            task_of(pattern)  # raises, with similar names
        selected |= matches
    kinds = list(_KINDS)
    ordered = sorted(selected, key=lambda name: (kinds.index(known[name]), name))
    return [_describe(name, _KINDS[known[name]]) for name in ordered]


def _describe(name: str, kind: Kind) -> ListedModel:
    if name == FACE_DETECTOR:
        return ListedModel(
            name=name,
            kind=kind,
            parameters=sum(weights.numel() for weights in FaceCascade().parameters()),
            input=DETECTOR_INPUT,
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
