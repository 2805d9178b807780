"""From what a module returns to a result: plain values on the CPU."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from headrace.errors import ConfigError
from headrace.models.results import Boxes, Features, Labels


@dataclass(frozen=True, kw_only=True)
class ClassNames:
    """What the classes of a model are called."""

    names: tuple[str, ...] | None
    """Name of each class; None when the weights do not tell."""

    def __getitem__(self, number: int) -> str:
        """Return the name of a class, or its number when it has none."""
        return self.names[number] if self.names else f"class {number}"


@dataclass(frozen=True, kw_only=True)
class ToLabels:
    """Takes the likeliest classes from scores [N, classes]."""

    class_names: ClassNames
    top_k: int = 1
    """How many; where there are fewer classes, all of them."""

    def __post_init__(self) -> None:
        if self.top_k < 1:
            raise ConfigError(f"top_k must be >= 1, got {self.top_k}")

    def __call__(self, scores: torch.Tensor) -> Labels:
        """Return the labels; of equal ones the class with the lower number comes first."""
        # Stable, where topk leaves the order of equals open.
        ordered = scores.float().softmax(dim=1).sort(dim=1, descending=True, stable=True)
        confidence, classes = (found[:, : self.top_k].tolist() for found in ordered)
        return Labels(
            names=tuple(tuple(self.class_names[k] for k in row) for row in classes),
            confidence=tuple(map(tuple, confidence)),
        )


@dataclass(frozen=True, kw_only=True)
class ToBoxes:
    """Takes the boxes from what torchvision's detectors return."""

    class_names: ClassNames
    threshold: float
    """Boxes with a lower score are left out."""

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise ConfigError(f"threshold must lie in 0 to 1, got {self.threshold}")

    def __call__(self, found: Sequence[Mapping[str, torch.Tensor]]) -> Boxes:
        """Return the boxes; `found` has `boxes`, `labels` and `scores` of each picture."""
        kept = [picture["scores"] >= self.threshold for picture in found]
        pairs = list(zip(found, kept, strict=True))
        return Boxes(
            xyxy=tuple(picture["boxes"][k].float().cpu().numpy() for picture, k in pairs),
            labels=tuple(
                tuple(self.class_names[number] for number in picture["labels"][k].tolist())
                for picture, k in pairs
            ),
            scores=tuple(picture["scores"][k].float().cpu().numpy() for picture, k in pairs),
        )


def to_features(found: Mapping[str, torch.Tensor]) -> Features:
    """Return the features of each layer."""
    return Features(layers={name: value.float().cpu().numpy() for name, value in found.items()})
