"""Models that cost nothing, for tests of what is done with them."""

import torch
from torch import nn

from headrace.models.class_names import ClassNames
from headrace.models.model import Model
from headrace.models.outputs import ToLabels
from headrace.models.results import Labels
from headrace.preprocess.spec import InputSpec

PICTURES = InputSpec(resize=4, crop=4, mean=(0,) * 3, std=(1,) * 3, interpolation="bilinear")


class Mean(nn.Module):
    """Scores each channel by its mean."""

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return batch.mean(dim=(2, 3))


class Failing(nn.Module):
    """Cannot run."""

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("out of memory\nwith a long story")


def tiny(
    module: nn.Module, labels: tuple[str, ...] | None = None, *, top_k: int = 1
) -> Model[Labels]:
    """Return a classifier of 4x4 pictures."""
    return Model(
        name="tiny",
        module=module,
        input=PICTURES,
        output=ToLabels(class_names=ClassNames(names=labels), top_k=top_k),
        origin="made here",
    )
