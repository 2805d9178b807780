"""The head of a classifier is found by name, and a new one scores as many classes as asked."""

import pytest
import torch
from torch import nn
from torchvision import models

from headrace.errors import ConfigError
from headrace.models.catalogue import names_of
from headrace.models.head import head_of, replace_head

HEADS = {
    **dict.fromkeys(("alexnet", "vgg"), "classifier.6"),
    **dict.fromkeys(("convnext",), "classifier.2"),
    **dict.fromkeys(("densenet",), "classifier"),
    **dict.fromkeys(("efficientnet", "mnasnet", "mobilenet_v2", "squeezenet"), "classifier.1"),
    **dict.fromkeys(("mobilenet_v3",), "classifier.3"),
    **dict.fromkeys(("maxvit",), "classifier.5"),
    **dict.fromkeys(("googlenet", "inception", "regnet", "shufflenet"), "fc"),
    **dict.fromkeys(("resnet", "resnext", "wide_resnet"), "fc"),
    **dict.fromkeys(("swin",), "head"),
    **dict.fromkeys(("vit",), "heads.head"),
}
"""Beginning of a model's name → where torchvision has its head."""


def bare(name: str) -> nn.Module:
    """Return a model of torchvision without memory for its weights, where it can be built so."""
    options = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    with torch.device("cpu" if name.startswith("regnet") else "meta"):
        return models.get_model(name, weights=None, **options)


def expected_head(name: str) -> str:
    return HEADS[max((each for each in HEADS if name.startswith(each)), key=len)]


@pytest.mark.parametrize(
    "name", [each for each in names_of("classification") if not each.startswith("regnet")]
)
def test_every_classifier_of_torchvision_gets_a_new_head(name):
    module = bare(name)
    assert replace_head(module, 7) == expected_head(name)
    head = module.get_submodule(expected_head(name))
    assert head.weight.shape[0] == 7
    assert head.weight.is_meta


@pytest.mark.parametrize("name", ["regnet_x_400mf", "regnet_y_400mf"])
def test_a_regnet_gets_a_new_head(name):
    assert replace_head(bare(name), 3) == "fc"


def test_a_squeezenet_scores_the_new_classes():
    """Its head is a convolution."""
    module = models.squeezenet1_1().eval()
    replace_head(module, 5)
    with torch.inference_mode():
        assert module(torch.zeros(2, 3, 64, 64)).shape == (2, 5)


def test_a_new_head_follows_from_its_seed_alone():
    drawn = []
    for seed in (3, 3, 4):
        module = nn.Sequential(nn.Linear(4, 1000))
        state = torch.random.get_rng_state()
        replace_head(module, 6, seed=seed)
        assert torch.equal(torch.random.get_rng_state(), state)
        drawn.append(module[0].weight.detach())
        assert not module[0].bias.any()
        assert drawn[-1].abs().max() <= 0.5
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_what_scores_no_classes_has_no_head():
    with pytest.raises(ConfigError, match="Flatten has no linear or convolutional layer"):
        head_of(nn.Flatten())
