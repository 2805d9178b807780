"""Tiny models, and a check of error messages."""

import re
from contextlib import contextmanager

import pytest
import torch
from torch import nn
from torchvision import models

from headrace.errors import ConfigError
from headrace.models.model import Model
from headrace.models.outputs import ToLabels
from headrace.models.results import ClassNames, Labels
from headrace.preprocess.spec import InputSpec

IMAGES = InputSpec(resize=4, crop=4, mean=(0,) * 3, std=(1,) * 3, interpolation="bilinear")


COCO = ClassNames(names=("__background__", "person", "traffic light", "N/A", "dog"))
UNNAMED = ClassNames(names=None)


class Mean(nn.Module):
    """Scores each channel by its mean."""

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return batch.mean(dim=(2, 3))


class Applied(nn.Module):
    """Applies a function of itself, with its inner layers, to the batch."""

    def __init__(self, function, **layers):
        super().__init__()
        self.function = function
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, batch):
        return self.function(self, batch)


class Failing(nn.Module):
    """Fails in every run."""

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("out of memory\nwith a long story")


def bare(name: str, **options: object) -> nn.Module:
    """Return a torchvision model without memory for its weights, if it can be built so."""
    if name in ("googlenet", "inception_v3"):
        options = {"init_weights": False, **options}
    with torch.device("cpu" if name.startswith("regnet") else "meta"):
        return models.get_model(name, weights=None, **options)


def tiny(
    module: nn.Module, labels: tuple[str, ...] | None = None, *, top_k: int = 1
) -> Model[Labels]:
    """Return a classifier of 4x4 images."""
    return Model(
        name="tiny",
        module=module,
        input=IMAGES,
        output=ToLabels(class_names=ClassNames(names=labels), top_k=top_k),
        origin="tests",
    )


@contextmanager
def refused(*parts: str, error: type[Exception] = ConfigError):
    """Expect a one-line error with these parts, in this order; ... stands for any text."""
    texts = [text.strip() for part in parts for text in part.split("...")]
    with pytest.raises(error, match=".*".join(map(re.escape, texts))) as caught:
        yield
    assert "\n" not in str(caught.value)
