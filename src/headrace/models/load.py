"""Models by name, loaded with their weights and result types."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from headrace.errors import ConfigError
from headrace.models.catalogue import FACE_DETECTOR, check_name
from headrace.models.faces import face_detector
from headrace.models.load_weights import LoadedModel, with_weights
from headrace.models.model import Model, Result
from headrace.models.outputs import BoxDecoder, ToLabels
from headrace.models.results import BoxChoice, Boxes, Labels

_DEFAULT_CHOICE: Final = BoxChoice()


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
    built = face_detector(weights) if name == FACE_DETECTOR else with_weights(name, weights)
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
