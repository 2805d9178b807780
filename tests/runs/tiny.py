"""Tiny classifier and detector, for tests of runs."""

from collections.abc import Callable

import torch
from torch import nn

from headrace.models.catalogue import DETECTOR_INPUT
from headrace.models.model import Model
from headrace.models.outputs import BoxDecoder, ToLabels
from headrace.models.results import BoxChoice, Boxes, ClassNames, Labels
from headrace.preprocess.spec import InputSpec


class Brightness(nn.Module):
    """Scores "dark" and "light" by the mean of an image."""

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        light = batch.mean(dim=(1, 2, 3))
        return 20 * torch.stack([0.5 - light, light - 0.5], dim=1)


class Failing(Brightness):
    """Raises `error` for a batch if `when(batch)`."""

    def __init__(
        self, error: Exception, when: Callable[[torch.Tensor], bool] = lambda batch: True
    ) -> None:
        super().__init__()
        self.error, self.when = error, when

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        if self.when(batch):
            raise self.error
        return super().forward(batch)


def tiny_classifier(module: nn.Module | None = None) -> Model[Labels]:
    """Return a classifier of 8x8 images into "dark" and "light"."""
    return Model(
        name="tiny",
        module=(module or Brightness()).eval(),
        input=InputSpec(
            resize=8, crop=8, mean=(0.0,) * 3, std=(1.0,) * 3, interpolation="bilinear"
        ),
        output=ToLabels(class_names=ClassNames(names=("dark", "light"))),
        origin="tests",
    )


class LeftHalf(nn.Module):
    """Detects a dog in the left half of each image; the score is the mean of the image."""

    def forward(self, batch: torch.Tensor) -> list[dict[str, torch.Tensor]]:
        height, width = batch.shape[2:]
        return [
            {
                "boxes": torch.tensor([[0.0, 0.0, width / 2, height]]),
                "labels": torch.tensor([1]),
                "scores": image.mean()[None],
            }
            for image in batch
        ]


def tiny_detector() -> Model[Boxes]:
    """Return a detector of dogs in the left half of images of any size."""
    names = ClassNames(names=("__background__", "dog"))
    return Model(
        name="tiny",
        module=LeftHalf().eval(),
        input=DETECTOR_INPUT,
        output=BoxDecoder(class_names=names, choice=BoxChoice(threshold=0)),
        origin="tests",
    )
