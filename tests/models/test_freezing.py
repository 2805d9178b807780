"""Which weights are trained, and what recomputing saves."""

import pytest
import torch
from torch import nn
from torchvision import models

from headrace.errors import ConfigError
from headrace.models.freezing import freeze_before, recompute
from headrace.models.head import head_of


def layers(trained: tuple[str, ...]) -> set[str]:
    return {name.rpartition(".")[0] for name in trained}


def test_the_head_alone_is_trained_unless_more_is_asked_for():
    module = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Flatten(), nn.Linear(4, 2))
    assert freeze_before(module, head_of(module)) == ("2.weight", "2.bias")
    assert [each.requires_grad for each in module.parameters()] == [False, False, True, True]


@pytest.mark.parametrize(
    ("name", "layer", "first"),
    [
        ("resnet18", "layer4", "layer4.0.conv1.weight"),
        ("resnet18", "avgpool", "fc.weight"),
        ("mobilenet_v2", "features.18", "features.18.0.weight"),
        ("vgg11", "classifier", "classifier.0.weight"),
        ("vit_b_16", "encoder.layers.encoder_layer_11", None),
        ("swin_t", "features.7.1", "features.7.1.norm1.weight"),
    ],
)
def test_all_from_a_layer_on_is_trained(name, layer, first):
    with torch.device("meta"):
        module = models.get_model(name)
    trained = freeze_before(module, head_of(module), layer)
    assert trained[0] == (first or f"{layer}.ln_1.weight")
    names = [name for name, _ in module.named_parameters()]
    assert trained == tuple(names[names.index(trained[0]) :])


def test_a_layer_behind_the_head_still_trains_the_head():
    module = models.squeezenet1_1()
    assert layers(freeze_before(module, "classifier.1", "classifier.2")) == {"classifier.1"}


def test_a_layer_that_is_not_there_is_refused_with_those_like_it():
    with pytest.raises(ConfigError, match=r"no layer 'layer5'; did you mean layer4"):
        freeze_before(models.resnet18(), "fc", "layer5")


def kept_bytes(module: nn.Module, batch: torch.Tensor) -> tuple[int, list[torch.Tensor]]:
    """Return what a forward keeps for its backward, and the gradients of that."""
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.data_ptr()] = tensor.nbytes
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = module(batch).square().sum()
    trained = [each for each in module.parameters() if each.requires_grad]
    return sum(kept.values()), list(torch.autograd.grad(loss, trained))


def test_recomputing_keeps_less_and_gives_the_same_gradients():
    module = models.resnet18().eval()
    freeze_before(module, "fc", "layer3")
    batch = torch.linspace(-1, 1, 2 * 3 * 64 * 64).reshape(2, 3, 64, 64)
    plain, gradients = kept_bytes(module, batch)
    assert recompute(module) == 4
    less, same = kept_bytes(module, batch)
    assert less < 0.7 * plain
    assert all(torch.equal(*pair) for pair in zip(gradients, same, strict=True))


def test_there_is_nothing_to_recompute_where_the_head_alone_is_trained():
    module = models.resnet18()
    freeze_before(module, "fc")
    assert recompute(module) == 0
