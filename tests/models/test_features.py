"""What layers inside a model give."""

import numpy as np
import pytest
import torch
from torch import nn

from headrace.errors import ConfigError
from headrace.models.features import LayerTap
from headrace.models.load import load_classifier, load_features
from models.tiny import refused
from weights import mobilenet

FAMILIES = [
    ("resnet18", "layer3", (256, 14, 14)),
    ("vgg11", "features.20", (512, 7, 7)),
    ("efficientnet_b0", "features.3", (40, 28, 28)),
    ("mobilenet_v3_small", "avgpool", (576, 1, 1)),
    ("vit_b_32", "encoder.layers.encoder_layer_2", (50, 768)),
    ("swin_t", "features.3", (28, 28, 192)),
    ("r3d_18", "layer1", (64, 16, 56, 56)),
    ("mvit_v1_b", "blocks.0", (25089, 192)),
    ("ssdlite320_mobilenet_v3_large", "backbone.features.0.3", (24, 80, 80)),
]


@pytest.mark.parametrize(("name", "layer", "shape"), FAMILIES)
def test_layers_of_every_family_are_taken_by_name(name, layer, shape):
    model = load_features(name, [layer], "none")
    found = model.run(torch.rand(model.input.shape(1, (64, 64))))
    assert list(found.layers) == [layer]
    assert found.layers[layer].shape == (1, *shape)
    assert found.layers[layer].dtype == np.float32


def test_features_are_what_the_part_of_the_model_up_to_the_layer_gives():
    path = str(mobilenet())
    batch = torch.rand(2, 3, 224, 224)
    found = load_features("mobilenet_v2", ["features.4", "features"], path).run(batch)
    module = load_classifier("mobilenet_v2", path).module
    with torch.inference_mode():
        inner, outer = module.features[:5](batch), module.features(batch)
    assert np.array_equal(found.layers["features.4"], inner.numpy())
    assert np.array_equal(found.layers["features"], outer.numpy())
    assert found.layers["features"].shape == (2, 1280, 7, 7)


class Chain(nn.Module):
    """Adds one, works in place on that, and then must not be run."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Hardtanh(0, 1)
        self.doubling = Doubling()
        self.pair = Pair()
        self.unused = nn.Identity()
        self.last = Forbidden()

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return self.last(self.pair(self.doubling(self.doubling(self.first(batch)))))


class Doubling(nn.Module):
    """Doubles in place."""

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return batch.mul_(2)


class Pair(nn.Module):
    """Gives two tensors."""

    def forward(self, batch: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return batch + 1, batch


class Mapping(nn.Module):
    """Gives no tensor."""

    def forward(self, batch: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"found": batch}


class Forbidden(nn.Module):
    """Must not be run."""

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        raise AssertionError("it was run")


def test_what_a_layer_gave_is_not_changed_by_a_later_one_that_works_in_place():
    found = LayerTap(Chain(), ["pair", "first", "doubling"])(torch.ones(1, 2))
    assert list(found) == ["pair", "first", "doubling"], "in the order they were asked for"
    assert found["first"].tolist() == [[1, 1]]
    assert found["doubling"].tolist() == [[2, 2]], "the first of two"
    assert found["pair"].tolist() == [[5, 5]], "the first of a pair"


def test_each_batch_gives_its_own_features_and_a_layer_named_twice_comes_once():
    tap = LayerTap(Chain(), ["first", "first"])
    one, two = tap(torch.ones(1, 2)), tap(torch.zeros(1, 2))
    assert one["first"].tolist() == [[1, 1]]
    assert two["first"].tolist() == [[0, 0]]


def test_a_layer_that_is_not_run_or_gives_no_tensor_is_refused():
    chain = Chain()
    chain.last = nn.Identity()
    with pytest.raises(ConfigError, match="did not run its layer unused, which serves training"):
        LayerTap(chain, ["first", "unused"])(torch.ones(1, 2))
    with pytest.raises(ConfigError, match=r"layer 0 gives dict of .*, not a tensor; choose a"):
        LayerTap(nn.Sequential(Mapping()), ["0"])(torch.ones(1, 2))


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        (["layr4"], ("no layer 'layr4'; did you mean layer4",)),
        (["@"], ("no layer '@'; there are conv1, bn1, relu, maxpool, layer1,", "avgpool, fc")),
        ([""], ("no layer ''", "there are conv1")),
        ([], ("no layer was asked for; there are conv1",)),
    ],
)
def test_a_layer_that_is_not_there_is_refused_with_those_that_are(layers, words):
    with refused(*words):
        load_features("resnet18", layers, "none")
