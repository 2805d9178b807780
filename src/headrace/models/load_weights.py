"""torchvision models, built with their weights."""

import re
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from http.client import HTTPException
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torchvision import models
from torchvision.models import WeightsEnum

from headrace.errors import ConfigError, first_line
from headrace.models.catalogue import input_of, preset_by_file, preset_of, task_of
from headrace.models.checkpoint import NO_CHECKPOINT, check_fit, read_checkpoint, state_of
from headrace.models.gpu_memory import fitting_memory
from headrace.models.head import replace_head
from headrace.models.results import ClassNames
from headrace.models.trained_head import NAMED_WEIGHTS, TrainedHead
from headrace.preprocess.spec import InputSpec

_SEED = 0
"""Seed of random weights."""
_DETECTION_HEAD = re.compile(
    r"(cls_score|cls_logits|classification_head\.module_list[\d.]+)\.weight$"
)
_WITHOUT_EPS = frozenset(
    f"{name}_ResNet50_FPN_Weights.COCO_V1"
    for name in ("FasterRCNN", "MaskRCNN", "KeypointRCNN", "RetinaNet")
)
"""Weights trained with eps=0 in batch norms; torchvision sets it only when it loads them itself."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadedModel:
    """Model with its weights, on the CPU."""

    module: nn.Module
    """In evaluation mode."""
    input: InputSpec
    class_names: ClassNames
    origin: str
    """Origin of the weights, for the record."""


def with_weights(name: str, weights: str) -> LoadedModel:
    """Build the torchvision model `name` with its weights.

    `weights` is `DEFAULT` (torchvision's, from its cache or the network), `none` (random, equal in
    each call) or the path of a checkpoint: a state dict, or a dict with one as `state_dict` or
    `model`. The checkpoint sets the number of classes. A head trained by `headrace run --mode
    retrain` is loaded with its backbone. Code in a checkpoint is never executed.

    Raises:
        ConfigError: the model is unknown, or the weights cannot be read or do not fit it.
        BackendError: the model does not fit into memory.
    """
    with fitting_memory(name):
        return _with_weights(name, weights)


def weight_files(name: str, weights: str) -> list[Path]:
    """Return the weight files of a model: none, one, or a head and the file of its backbone.

    Raises:
        ConfigError: see `with_weights`.
    """
    if weights == "none":
        return []
    if weights == "DEFAULT":
        file = Path(preset_of(name, weights).url).name
        return [Path(torch.hub.get_dir()) / "checkpoints" / file]
    path = Path(weights).absolute()
    head = TrainedHead.from_checkpoint(read_checkpoint(path), path)
    return [path, *([] if head is None else weight_files(name, head.backbone_path(path)))]


def _with_weights(name: str, weights: str) -> LoadedModel:
    preset = preset_of(name, weights)
    labels = tuple(preset.meta["categories"] or ())
    is_labelled = weights != "none"
    if weights == "DEFAULT":
        module, origin = _load_default(name, preset), f"torchvision {preset}"
    elif weights == "none":
        module, origin = _build_random(name, preset), f"random, seed {_SEED}"
    else:
        content = read_checkpoint(Path(weights))
        head = TrainedHead.from_checkpoint(content, Path(weights))
        if head is not None:
            return _load_with_head(name, head, Path(weights))
        module, num_classes = _load_file(name, preset, content, Path(weights))
        origin, is_labelled = weights, num_classes == len(labels)
    return LoadedModel(
        module=module.eval(),
        input=input_of(name, preset),
        class_names=ClassNames(names=labels if is_labelled else None),
        origin=origin,
    )


def _load_default(name: str, preset: WeightsEnum) -> nn.Module:
    try:
        # torch.hub prints download progress to stdout, which is for results.
        with redirect_stdout(sys.stderr):
            return models.get_model(name, weights=preset)
    except (OSError, HTTPException, *NO_CHECKPOINT) as error:
        raise ConfigError(
            f"cannot load the weights {preset} of {name} from the cache {torch.hub.get_dir()} or "
            f"the network ({first_line(error)}); give --weights FILE, or --weights none for random "
            "weights"
        ) from error


def _build_random(name: str, preset: WeightsEnum, num_classes: int | None = None) -> nn.Module:
    options: dict[str, Any] = {} if num_classes is None else {"num_classes": num_classes}
    # torchvision sets these options only for its own weights.
    if name.startswith("vit_"):
        options |= {"image_size": input_of(name, preset).crop}
    if name in ("googlenet", "inception_v3"):
        options |= {"transform_input": True, "init_weights": False}
    if task_of(name) == "detection":
        options |= {"weights_backbone": None}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_SEED)
        return models.get_model(name, weights=None, **options)


def _load_with_head(name: str, head: TrainedHead, path: Path) -> LoadedModel:
    if head.model != name:
        raise ConfigError(
            f"the head {path} was trained for {head.model}, not for {name}; "
            f"give --model-name {head.model}"
        )
    weights = head.backbone_path(path)
    if weights not in NAMED_WEIGHTS and TrainedHead.from_checkpoint(
        read_checkpoint(Path(weights)), Path(weights)
    ):
        raise ConfigError(
            f"the backbone weights {weights} of the head {path} are themselves a head; train it "
            "again"
        )
    built = with_weights(name, weights)
    replace_head(built.module, len(head.classes))
    head.load_into(built.module, path)
    return replace(
        built,
        class_names=ClassNames(names=head.classes),
        origin=f"{path}, on {built.origin}",
    )


def _load_file(name: str, preset: WeightsEnum, content: Any, path: Path) -> tuple[nn.Module, int]:
    """Return the model and its number of classes."""
    state = state_of(content, path)
    module = _build_random(name, preset)
    num_classes = len(preset.meta["categories"])
    key = _head_key(module.state_dict())
    head, num_rows = state.get(key), len(module.state_dict()[key])
    if head is not None and head.ndim and len(head) != num_rows:
        # A detector has one row per class and anchor.
        num_classes = len(head) * num_classes // num_rows
        module = _build_random(name, preset, num_classes=num_classes)
    check_fit(module.state_dict(), state, name, path)
    module.load_state_dict(state)
    if str(preset_by_file(name, str(path))) in _WITHOUT_EPS:
        for layer in module.modules():
            if isinstance(layer, nn.BatchNorm2d):
                layer.eps = 0.0
    return module, num_classes


def _head_key(state: Mapping[str, torch.Tensor]) -> str:
    """Return the key of the matrix that scores the classes.

    It is the last matrix of torchvision's classifiers, and has a known name in its detectors.
    """
    matrices = [k for k, v in state.items() if k.endswith(".weight") and v.ndim in (2, 4, 5)]
    return ([key for key in matrices if _DETECTION_HEAD.search(key)] or matrices)[-1]
