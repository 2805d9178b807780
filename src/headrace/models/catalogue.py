"""Catalogue of models: names and tasks of torchvision's models, and smaller alternatives."""

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final, Literal, get_args

from torchvision import models
from torchvision.models import WeightsEnum

from headrace.errors import ConfigError, did_you_mean
from headrace.preprocess.spec import InputSpec

Task = Literal["classification", "detection", "video"]
"""Task of a model: classes of an image, objects in it, classes of a clip."""

_MODULES: Final = {
    "classification": models,
    "detection": models.detection,
    "video": models.video,
}
FACE_DETECTOR: Final = "mtcnn"
"""The only model that is not torchvision's: see headrace.models.faces."""
AS_THEY_ARE: Final = InputSpec(
    resize=None, crop=None, mean=(0.0,) * 3, std=(1.0,) * 3, interpolation="bilinear"
)
"""Input of detectors: they resize and normalize themselves, and return boxes in the original
image."""
_SERVED_BY: Final = {"detection": ", for headrace annotate and headrace run"}
_NEAR: Final = 0.75
"""Min difflib similarity for a name to count as a typing error: resnet5O, vgg12."""
_CHECKPOINT: Final = re.compile(r"\.(pth?|ckpt|tar)$", re.I)
_OWN: Final = (
    "any other model, also TorchScript or ONNX, you load in Python yourself: "
    "headrace.live(source, model), or --model module:function of headrace extract features"
)
_CLIP_FRAMES: Final = {"s3d": 128, "swin3d_t": 32, "swin3d_s": 32, "swin3d_b": 32}
"""Clip length of torchvision's published accuracy; 16 for models not listed."""


def names_of(task: Task) -> list[str]:
    """Return the names of the models for a task, torchvision's and `FACE_DETECTOR`, sorted."""
    own = [FACE_DETECTOR] if task == "detection" else []
    return sorted([*models.list_models(module=_MODULES[task]), *own])


def task_of(name: str) -> Task:
    """Return the task of the model `name`.

    Raises:
        ConfigError: torchvision has no such model.
    """
    for task in get_args(Task):
        if name in names_of(task):
            return task
    known = [name for task in get_args(Task) for name in names_of(task)]
    raise ConfigError(f"torchvision has no model {name!r}; {_advice(name, known)}")


def check_name(name: str, task: Task) -> None:
    """Raise ConfigError if torchvision has no model `name` for the task."""
    known = names_of(task)
    if name in known:
        return
    others = [other for other in get_args(Task) if name in names_of(other)]
    but = f" (it is a {others[0]} model{_SERVED_BY.get(others[0], '')})" if others else ""
    module = "" if task == "classification" else f"torchvision.models.{task}"
    raise ConfigError(
        f"torchvision has no {task} model {name!r}{but}; {_advice(name, known)} "
        f"({len(models.list_models(module=_MODULES[task]))} in "
        f"torchvision.models.list_models({module}))"
    )


def preset_of(name: str, weights: str) -> WeightsEnum:
    """Return torchvision's metadata of the weights; its own files are recognized by name.

    Raises:
        ConfigError: torchvision has no such model.
    """
    if name == FACE_DETECTOR:
        raise ConfigError(f"{name} is not of torchvision: it gives boxes, by headrace annotate")
    return own_preset(name, weights) or models.get_model_weights(name).DEFAULT


def own_preset(name: str, weights: str) -> WeightsEnum | None:
    """Return torchvision's metadata of the weights with this file name; None: no match."""
    file = Path(weights).name
    offered = models.get_model_weights(name)
    return next((own for own in offered if own.url.endswith(f"/{file}")), None)


def has_own_weights(name: str, weights: str) -> bool:
    """Return whether `weights` is a file of the user's, and none of torchvision's own."""
    if weights in ("DEFAULT", "none"):
        return False
    return name not in models.list_models() or own_preset(name, weights) is None


def input_of(name: str, preset: WeightsEnum) -> InputSpec:
    """Return the input that the model `name` was trained on."""
    task, transforms = task_of(name), preset.transforms()
    if task == "detection":
        return AS_THEY_ARE
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
    started = [other for other in known if typed and other.startswith(typed)]
    if near := did_you_mean(typed, known, instead=started, cutoff=_NEAR):
        return near
    is_file = _CHECKPOINT.search(name)
    file = f"a state dict for one of its models goes to --weights {name}; " if is_file else ""
    return f"{file}`headrace models` lists its models; {_OWN}"


_SHARE: Final = 0.25
"""Max multiply-adds of a smaller model ÷ the model's. The time per multiply-add differs up to three
times between models: on a CPU, efficientnet_b1 (0.69e9) takes longer than resnet18 (1.81e9)."""


def smaller_model(name: str) -> str | None:
    """Return the most accurate classifier with at most a quarter of the multiply-adds.

    ImageNet accuracy and multiply-adds are published by torchvision with its default weights
    (`WeightsEnum.meta`: `acc@1`, `_ops`). None: no such classifier, or not a torchvision model.
    """
    known = _known()
    if name not in known:
        return None
    _, own = known[name]
    smaller = [(accuracy, other) for other, (accuracy, ops) in known.items() if ops <= _SHARE * own]
    return max(smaller)[1] if smaller else None


@cache
def _known() -> dict[str, tuple[float, float]]:
    """Return accuracy in percent and 1e9 multiply-adds of each classifier that is not quantized."""
    known = {}
    for name in models.list_models(module=models):
        meta = models.get_model_weights(name).DEFAULT.meta
        known[name] = (float(meta["_metrics"]["ImageNet-1K"]["acc@1"]), float(meta["_ops"]))
    return known
