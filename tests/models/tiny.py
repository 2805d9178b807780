"""Models that cost nothing, and how a model that cannot be had is refused."""

import re
from contextlib import contextmanager

import pytest
import torch
from torch import nn

from headrace.errors import ConfigError
from headrace.models.model import Model
from headrace.models.outputs import ToLabels
from headrace.models.results import ClassNames, Labels
from headrace.preprocess.spec import InputSpec

PICTURES = InputSpec(resize=4, crop=4, mean=(0,) * 3, std=(1,) * 3, interpolation="bilinear")


COCO = ClassNames(names=("__background__", "person", "traffic light", "N/A", "dog"))
UNNAMED = ClassNames(names=None)


class Mean(nn.Module):
    """Scores each channel by its mean."""

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return batch.mean(dim=(2, 3))


class Applied(nn.Module):
    """Gives what a function of its inner layers makes of the batch."""

    def __init__(self, function, **layers):
        super().__init__()
        self.function = function
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, batch):
        return self.function(self, batch)


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


@contextmanager
def refused(*words: str, error: type[Exception] = ConfigError):
    """Expect an error that says these words, in this order, in one line; ... stands for others."""
    parts = [part.strip() for each in words for part in each.split("...")]
    with pytest.raises(error, match=".*".join(map(re.escape, parts))) as caught:
        yield
    assert "\n" not in str(caught.value)
