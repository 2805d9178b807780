"""Conversion of module outputs to results, plain values on the CPU; descriptions for errors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from headrace.models.results import BoxChoice, Boxes, ClassNames, Labels
from headrace.units import check_integers


@dataclass(frozen=True, kw_only=True)
class ToLabels:
    """Returns the most likely classes from scores [N, classes]."""

    class_names: ClassNames
    top_k: int = 1
    """Max number of classes."""

    def __post_init__(self) -> None:
        check_integers(1, top_k=self.top_k)

    def __call__(self, scores: torch.Tensor) -> Labels:
        """Return the labels; classes with equal scores are ordered by number."""
        # A stable sort: topk does not define the order of equal scores.
        ordered = scores.float().softmax(dim=1).sort(dim=1, descending=True, stable=True)
        confidence, classes = (detections[:, : self.top_k].tolist() for detections in ordered)
        return Labels(
            names=tuple(tuple(self.class_names[k] for k in row) for row in classes),
            confidence=tuple(map(tuple, confidence)),
        )


@dataclass(frozen=True, kw_only=True)
class BoxDecoder:
    """Returns the boxes from the output of torchvision's detectors."""

    class_names: ClassNames
    choice: BoxChoice
    """Boxes to keep."""

    def __post_init__(self) -> None:
        self.choice.numbers(self.class_names)

    def __call__(self, detections: Sequence[Mapping[str, torch.Tensor]]) -> Boxes:
        """Return the boxes; `detections` holds `boxes`, `labels` and `scores` of each image."""
        wanted = self.choice.numbers(self.class_names)
        kept = [_kept(picture, wanted, self.choice) for picture in detections]
        classes = tuple(labels.cpu().numpy() for _, labels, _ in kept)
        return Boxes(
            xyxy=tuple(boxes.float().cpu().numpy() for boxes, _, _ in kept),
            classes=classes,
            labels=tuple(
                tuple(self.class_names[number] for number in numbers.tolist())
                for numbers in classes
            ),
            scores=tuple(scores.float().cpu().numpy() for _, _, scores in kept),
        )


def _kept(
    picture: Mapping[str, torch.Tensor], classes: frozenset[int] | None, choice: BoxChoice
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return boxes, classes and scores of the kept boxes, by descending score."""
    scores, labels = picture["scores"], picture["labels"]
    good = scores >= choice.threshold
    if classes is not None:
        good &= torch.isin(labels, torch.tensor(sorted(classes), device=labels.device))
    indices = good.nonzero()[:, 0]
    # Stable, so that equal scores keep the model's order.
    order = scores[indices].sort(descending=True, stable=True).indices[: choice.max_boxes]
    indices = indices[order]
    return picture["boxes"][indices], labels[indices], scores[indices]


_SHOWN: Final = 4
"""Max entries of a mapping in a description."""


def value_words(value: Any) -> str:
    """Return the description of a value: "tensor float32 [8, 512]", "list of 3 x tensor int64 []".

    Lists and tuples are described by their first entry; contents of tensors are left out.
    """
    if isinstance(value, torch.Tensor):
        where = "" if value.device.type == "cpu" else f" on {value.device}"
        return f"tensor {str(value.dtype).removeprefix('torch.')} {[*value.shape]}{where}"
    if isinstance(value, np.ndarray):
        return f"numpy array {value.dtype} {[*value.shape]}"
    kind = type(value).__name__
    if isinstance(value, Mapping):
        named = [f"{name!r}: {value_words(item)}" for name, item in list(value.items())[:_SHOWN]]
        return f"{kind} of {', '.join(named)}" if named else f"empty {kind}"
    if isinstance(value, list | tuple):
        return f"{kind} of {len(value)} x {value_words(value[0])}" if value else f"empty {kind}"
    return kind
