"""Error messages about models: one line with the fix; see refused.txt."""

from pathlib import Path

import pytest
import torch
from torch import nn
from torchvision import models

from headrace.errors import ConfigError
from headrace.models import (
    catalogue,
    compute,
    evaluation_mode,
    feature_extractor,
    load,
    outputs,
    results,
    split_model,
)
from models import tiny
from models.tiny import Applied
from tests.kit.page_names import names_in
from tests.kit.pages import calls_of, check_message


def tied(module, batch):
    return module.inner(module.between(module.inner(batch)))


DECIDING = Applied(lambda m, batch: m.scale(batch) if batch.sum() > 0 else -batch, scale=nn.ReLU())
TIED = Applied(tied, inner=nn.Linear(4, 4), between=nn.ReLU())
PARTLY = Applied(lambda m, batch: m.first(batch), first=nn.Linear(3, 4), fc=nn.Linear(4, 5))
MAPPING = nn.Sequential(Applied(lambda m, batch: {"found": batch}))


def resnet18():
    """Return a ResNet-18 without memory for its weights."""
    with torch.device("meta"):
        return models.resnet18().eval()


MODULES = (catalogue, compute, evaluation_mode, feature_extractor, load, outputs)


@pytest.mark.parametrize(("call", "message"), calls_of(Path(__file__).with_name("refused.txt")))
def test_invalid_models_and_options_are_refused(call, message):
    names = names_in(*MODULES, results, split_model, tiny) | globals()
    assert "\n" not in str(check_message(call, message, names))


@pytest.mark.parametrize("name", ["yolov8n", "own.pt", "models/own.onnx", "own:build", "clip", ""])
def test_an_unknown_name_is_refused_with_advice_for_custom_models(name):
    with pytest.raises(ConfigError) as raised:
        load.load_classifier(name, "none")
    assert "did you mean" not in str(raised.value)
    assert "headrace.live(source, model)" in str(raised.value)
    assert "headrace extract features --model module:function" in str(raised.value)
    assert ("--weights own.pt" in str(raised.value)) == (name == "own.pt")
