"""Results from module outputs, and descriptions of outputs for errors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from headrace.models.results import BoxChoice, Boxes, ClassNames, Labels
from headrace.units import check_integers


@dataclass(frozen=True, kw_only=True)
class ToLabels:
    """Converts scores [N, classes] to the most likely classes."""

    class_names: ClassNames
    top_k: int = 1
    """Max number of classes."""

    def __post_init__(self) -> None:
        check_integers(1, top_k=self.top_k)

    def __call__(self, scores: torch.Tensor) -> Labels:
        """Return the labels; classes with equal scores come by number."""
        # Stable sort: topk does not define the order of equal scores.
        ordered = scores.float().softmax(dim=1).sort(dim=1, descending=True, stable=True)
        confidence, classes = (column[:, : self.top_k].tolist() for column in ordered)
        return Labels(
            names=tuple(tuple(self.class_names[k] for k in row) for row in classes),
            confidence=tuple(map(tuple, confidence)),
        )


@dataclass(frozen=True, kw_only=True)
class BoxDecoder:
    """Converts the output of torchvision's detectors to boxes."""

    class_names: ClassNames
    choice: BoxChoice
    """Boxes to keep."""

    def __post_init__(self) -> None:
        self.choice.numbers(self.class_names)

    def __call__(self, detections: Sequence[Mapping[str, torch.Tensor]]) -> Boxes:
        """Return the boxes; `detections` holds `boxes`, `labels` and `scores` of each image."""
        numbers = self.choice.numbers(self.class_names)
        selected = [_select_boxes(image, numbers, self.choice) for image in detections]
        classes = tuple(labels.cpu().numpy() for _, labels, _ in selected)
        return Boxes(
            xyxy=tuple(boxes.float().cpu().numpy() for boxes, _, _ in selected),
            classes=classes,
            labels=tuple(
                tuple(self.class_names[number] for number in image.tolist()) for image in classes
            ),
            scores=tuple(scores.float().cpu().numpy() for _, _, scores in selected),
        )


def _select_boxes(
    detection: Mapping[str, torch.Tensor], classes: frozenset[int] | None, choice: BoxChoice
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return boxes, classes and scores of the kept boxes, by descending score."""
    scores, labels = detection["scores"], detection["labels"]
    is_selected = scores >= choice.threshold
    if classes is not None:
        is_selected &= torch.isin(labels, torch.tensor(sorted(classes), device=labels.device))
    indices = is_selected.nonzero()[:, 0]
    # Stable sort: equal scores keep the order of the model.
    order = scores[indices].sort(descending=True, stable=True).indices[: choice.max_boxes]
    indices = indices[order]
    return detection["boxes"][indices], labels[indices], scores[indices]


_MAX_ENTRIES: Final = 4
"""Max entries of a mapping in a description."""


def describe_value(value: Any) -> str:
    """Return a description of a value: "tensor float32 [8, 512]", "list of 3 x tensor int64 []".

    Lists and tuples are described by their first entry, tensors without their content.
    """
    if isinstance(value, torch.Tensor):
        where = "" if value.device.type == "cpu" else f" on {value.device}"
        return f"tensor {str(value.dtype).removeprefix('torch.')} {[*value.shape]}{where}"
    if isinstance(value, np.ndarray):
        return f"numpy array {value.dtype} {[*value.shape]}"
    kind = type(value).__name__
    if isinstance(value, Mapping):
        entries = [
            f"{name!r}: {describe_value(item)}" for name, item in list(value.items())[:_MAX_ENTRIES]
        ]
        return f"{kind} of {', '.join(entries)}" if entries else f"empty {kind}"
    if isinstance(value, list | tuple):
        return f"{kind} of {len(value)} x {describe_value(value[0])}" if value else f"empty {kind}"
    return kind
