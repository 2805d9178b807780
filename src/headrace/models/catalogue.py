"""Catalogue of models: names, tasks, inputs, weights and sizes, and smaller alternatives."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import torch

from headrace.errors import ConfigError, did_you_mean
from headrace.models.mtcnn import PACKAGE, FaceCascade, face_weights
from headrace.preprocess.spec import InputSpec

if TYPE_CHECKING:
    from torchvision.models import WeightsEnum

Task = Literal["classification", "detection", "video"]
"""Output of a model: classes of an image, boxes in an image, or classes of a clip."""

FACE_DETECTOR: Final = "mtcnn"
"""Name of the only model that is not torchvision's: see headrace.models.mtcnn."""
DETECTOR_INPUT: Final = InputSpec(
    resize=None, crop=None, mean=(0.0,) * 3, std=(1.0,) * 3, interpolation="bilinear"
)
"""Input of detectors: they resize and normalise inside, and return boxes in the original image."""
_EXAMPLES: Final = {"classification": "resnet", "detection": "rcnn ssd", "video": "3d"}
"""Task → parts of names of some of its models."""
_MIN_SIMILARITY: Final = 0.75
"""Min difflib ratio for a name to count as a typo: resnet5O, vgg12."""
_CHECKPOINT: Final = re.compile(r"\.(pth?|ckpt|tar)$", re.I)
_CUSTOM_MODELS: Final = (
    "load any other model, TorchScript and ONNX included, in Python: "
    "headrace.live(source, model), or for features headrace extract features --model "
    "module:function"
)
_CLIP_FRAMES: Final = {"s3d": 128, "swin3d_t": 32, "swin3d_s": 32, "swin3d_b": 32}
"""Frames per clip of torchvision's published accuracy; 16 for other models."""


def torchvision_models() -> Any:
    """Return `torchvision.models`; the first import takes 1.3 s of a core."""
    from torchvision import models

    return models


def names_of(task: Task) -> list[str]:
    """Return the model names of a task, sorted: torchvision's, and `FACE_DETECTOR`."""
    models = torchvision_models()
    module = models if task == "classification" else getattr(models, task)
    extra = [FACE_DETECTOR] if task == "detection" else []
    return sorted([*models.list_models(module=module), *extra])


def _tasks() -> dict[str, Task]:
    """Return name → task of all models."""
    return {name: task for task in get_args(Task) for name in names_of(task)}


def task_of(name: str) -> Task:
    """Return the task of the model `name`.

    Raises:
        ConfigError: torchvision has no such model.
    """
    tasks = _tasks()
    if name not in tasks:
        raise ConfigError(f"torchvision has no model {name!r}; {_advice(name, [*tasks])}")
    return tasks[name]


def check_name(name: str, task: Task) -> None:
    """Raise ConfigError if torchvision has no model `name` for the task."""
    known = names_of(task)
    if name in known:
        return
    other = _tasks().get(name)
    if other is not None:
        command = "headrace annotate or headrace run" if other == "detection" else "headrace run"
        raise ConfigError(
            f"{name} is a {other} model, not a {task} model: give it to {command}, or choose "
            f"another one (headrace models {_EXAMPLES[task]})"
        )
    module = "" if task == "classification" else f"torchvision.models.{task}"
    raise ConfigError(
        f"torchvision has no {task} model {name!r}; {_advice(name, known)} "
        f"({len({*known} - {FACE_DETECTOR})} in torchvision.models.list_models({module}))"
    )


def preset_of(name: str, weights: str) -> "WeightsEnum":
    """Return torchvision's metadata of the weights; torchvision's files are recognized by name.

    Raises:
        ConfigError: torchvision has no such model.
    """
    if name == FACE_DETECTOR:
        raise ConfigError(f"{name} is not a torchvision model; run it with headrace annotate")
    return preset_by_file(name, weights) or _default_weights(name)


def _default_weights(name: str) -> "WeightsEnum":
    return torchvision_models().get_model_weights(name).DEFAULT


def preset_by_file(name: str, weights: str) -> "WeightsEnum | None":
    """Return torchvision's metadata of the weights with this file name; None: no match."""
    file = Path(weights).name
    presets = torchvision_models().get_model_weights(name)
    return next((preset for preset in presets if preset.url.endswith(f"/{file}")), None)


def has_custom_weights(name: str, weights: str) -> bool:
    """Return whether `weights` is a file that torchvision does not publish."""
    if weights in ("DEFAULT", "none"):
        return False
    known = torchvision_models().list_models()
    return name not in known or preset_by_file(name, weights) is None


def input_of(name: str, preset: "WeightsEnum") -> InputSpec:
    """Return the input that the model `name` was trained on."""
    task, transforms = task_of(name), preset.transforms()
    if task == "detection":
        return DETECTOR_INPUT
    size = transforms.resize_size
    is_video = task == "video"
    return InputSpec(
        resize=size[0] if len(size) == 1 else tuple(size),
        crop=transforms.crop_size[0],
        mean=tuple(transforms.mean),
        std=tuple(transforms.std),
        interpolation=transforms.interpolation.value,
        antialias=not is_video,
        num_frames=_CLIP_FRAMES.get(name, 16) if is_video else None,
    )


def _advice(name: str, known: Sequence[str]) -> str:
    typed = name.lower()
    prefixed = [other for other in known if typed and other.startswith(typed)]
    if near := did_you_mean(typed, known, instead=prefixed, cutoff=_MIN_SIMILARITY):
        return near
    is_file = _CHECKPOINT.search(name)
    file = f"give a state dict for one of its models with --weights {name}; " if is_file else ""
    return f"{file}`headrace models` lists its models; {_CUSTOM_MODELS}"


_MAX_WORK_SHARE: Final = 0.25
"""Max multiply-adds of a smaller model, as a share of the model's. Not larger, because the time per
multiply-add differs up to threefold: on a CPU, efficientnet_b1 (0.69e9) is slower than resnet18
(1.81e9)."""


def smaller_model(name: str) -> str | None:
    """Return the most accurate classifier with at most a quarter of the multiply-adds.

    ImageNet accuracy and multiply-adds are published by torchvision with its default weights
    (`WeightsEnum.meta`: `acc@1`, `_ops`). None: no such classifier, or not a torchvision model.
    """
    known = _published_figures()
    if name not in known:
        return None
    limit = _MAX_WORK_SHARE * known[name][1]
    smaller = [(accuracy, other) for other, (accuracy, work) in known.items() if work <= limit]
    return max(smaller)[1] if smaller else None


@cache
def _published_figures() -> dict[str, tuple[float, float]]:
    """Return accuracy in percent and 1e9 multiply-adds of each unquantized classifier."""
    figures = {}
    for name in names_of("classification"):
        meta = _default_weights(name).meta
        figures[name] = (float(meta["_metrics"]["ImageNet-1K"]["acc@1"]), float(meta["_ops"]))
    return figures


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
    known = _tasks()
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
            weights=PACKAGE,
            weights_bytes=_FACE_WEIGHTS_BYTES,
            is_at_hand=face_weights() is not None,
        )
    preset = _default_weights(name)
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
