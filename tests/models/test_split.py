"""Model split in two: results equal those of the unsplit model."""

import pytest
import torch
from torch import nn
from torchvision import models
from torchvision.models import swin_transformer as swin
from torchvision.models import vgg

from headrace.models.compute import Compute, layer_of
from headrace.models.evaluation_mode import is_training
from headrace.models.load import load_classifier
from headrace.models.model import prepare
from headrace.models.split_model import SplitModule, split_points

FAMILIES = ("resnet", "wide_resnet", "resnext", "vgg", "efficientnet", "mobilenet", "vit_", "swin_")
IN_FAMILIES = [name for name in models.list_models(module=models) if name.startswith(FAMILIES)]
SMALLEST = {
    *("resnet18", "resnet50", "resnext50_32x4d", "vgg11", "vgg11_bn", "efficientnet_b0"),
    *("efficientnet_v2_s", "mobilenet_v2", "mobilenet_v3_small", "vit_b_32", "swin_t", "swin_v2_t"),
}
"""The others have more or wider layers of the same kinds."""


def vgg_without_its_large_layers() -> nn.Module:
    features = vgg.make_layers([8, "M", 8, "M"], batch_norm=True)
    with torch.device("meta"):
        module = vgg.VGG(features, init_weights=False)
    layers = nn.Linear(8 * 7 * 7, 32), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(32, 10)
    module.classifier = nn.Sequential(*layers)
    return module


TINY_SWIN = {"patch_size": [4, 4], "embed_dim": 24, "depths": [2, 2], "num_heads": [2, 4]}
V2 = {"block": swin.SwinTransformerBlockV2, "downsample_layer": swin.PatchMergingV2}
TINY = {
    "resnet": models.resnet18,
    "vgg": vgg_without_its_large_layers,
    "efficientnet": models.efficientnet_b0,
    "mobilenet_v2": models.mobilenet_v2,
    "mobilenet_v3": models.mobilenet_v3_small,
    "vit": lambda: models.VisionTransformer(64, 16, 3, 2, hidden_dim=32, mlp_dim=64),
    "swin": lambda: models.SwinTransformer(**TINY_SWIN, window_size=[7, 7]),
    "swin_v2": lambda: models.SwinTransformer(**TINY_SWIN, window_size=[8, 8], **V2),
}
"""Family → a cheap model of it."""


def built(name: str) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return TINY[name]().eval()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in SMALLEST else pytest.mark.slow)
        for name in IN_FAMILIES
    ],
)
def test_every_model_of_the_families_can_be_split_by_layer_names(name):
    """On the meta device, which computes only shapes."""
    with torch.device("meta"):
        module = models.get_model(name, weights=None).eval()
    points = split_points(module)
    assert len(points) > 20
    assert set(points) <= dict(module.named_modules()).keys()
    middle = SplitModule(module, points[len(points) // 2])
    batch = torch.empty(2, 3, 224, 224, device="meta")
    assert middle.finish(middle.begin(batch)).shape == (2, 1000)


@pytest.mark.parametrize("name", TINY)
def test_the_split_model_equals_the_unsplit_one_at_every_point(name):
    module = built(name)
    batch = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    points = split_points(module)
    inside = max(points, key=lambda point: point.count("."))
    with torch.inference_mode():
        expected = module(batch)
        for point in {points[0], points[len(points) // 3], inside, points[-1]}:
            split = SplitModule(module, point)
            assert torch.equal(split.finish(split.begin(batch)), expected), point
            assert torch.equal(split(batch), expected), point


def test_a_module_keeps_its_mode_and_is_traced_in_evaluation_mode():
    """DenseNet calls dropout as a function: a trace in training mode would contain it."""
    module = models.DenseNet(growth_rate=4, block_config=(2, 2), num_init_features=8, drop_rate=0.5)
    batch = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    module.train().features.norm0.eval()
    before = {name: part.training for name, part in module.named_modules()}
    split = SplitModule(module, "features.transition1")
    assert {name: part.training for name, part in module.named_modules()} == before
    with torch.inference_mode():
        module.eval()
        assert torch.equal(split(batch), module(batch))
    assert not is_training(SplitModule(module, "features.transition1"))


def test_each_weight_is_in_one_part_without_a_copy():
    module = built("resnet")
    split = SplitModule(module, "layer3")
    parts = [{id(weights) for weights in part.parameters()} for part in (split.first, split.second)]
    assert not parts[0] & parts[1]
    assert parts[0] | parts[1] == {id(weights) for weights in module.parameters()}
    assert id(module.layer3[1].conv2.weight) in parts[0]
    assert id(module.layer4[0].conv1.weight) in parts[1]


def test_one_tensor_is_copied_after_a_block_and_two_inside_it():
    module, batch = built("resnet"), torch.zeros(1, 3, 64, 64)
    with torch.inference_mode():
        shapes = [
            [tuple(value.shape) for value in SplitModule(module, layer).begin(batch)]
            for layer in ("layer3", "layer3.0.conv1")
        ]
    assert shapes == [[(1, 256, 4, 4)], [(1, 128, 8, 8), (1, 256, 4, 4)]]


def test_a_split_model_is_prepared_and_run_like_any_other():
    def load():
        return load_classifier("squeezenet1_1", "none")

    unsplit, batch = load(), torch.ones(2, 3, 224, 224)
    split = prepare(load, Compute(split_layer="features.8"), batch_size=2)
    assert split.run(batch) == unsplit.run(batch)
    assert split.num_parameters == unsplit.num_parameters


def test_a_split_point_may_name_its_model():
    assert layer_of("resnet50:layer3", "resnet50") == layer_of("layer3", "resnet50") == "layer3"
