"""The list of models: told without building one, and true."""

import pytest
import torch
from torchvision import models

from headrace.errors import ConfigError
from headrace.models.listing import list_models


def test_every_model_that_can_be_run_is_listed_by_kind_and_name():
    found = list_models()
    kinds = [each.kind for each in found]
    assert kinds == sorted(kinds, key=["pictures", "clips", "detector"].index)
    names = {each.name: each for each in found}
    assert {"resnet50", "vit_b_16", "r3d_18", "fasterrcnn_resnet50_fpn", "mtcnn"} <= names.keys()
    assert (names["mtcnn"].parameters, names["mtcnn"].is_at_hand) == (495_850, True)
    assert names["resnet50"].input.shape(1, (480, 640)) == (1, 3, 224, 224)
    assert names["r3d_18"].input.num_frames == 16
    assert names["fasterrcnn_resnet50_fpn"].input.crop is None


@pytest.mark.parametrize("name", ["mobilenet_v2", "resnet18", "vit_b_32", "swin_t", "r3d_18"])
def test_the_number_of_parameters_is_that_of_the_model(name):
    with torch.device("meta"):
        module = models.get_model(name, weights=None)
    (listed,) = list_models([name])
    assert listed.parameters == sum(weights.numel() for weights in module.parameters())


def test_names_parts_of_names_and_patterns_choose():
    assert [each.name for each in list_models(["resnet50"])] == ["resnet50"]
    assert [each.name for each in list_models(["mobilenet_v3"])] == [
        *("mobilenet_v3_large", "mobilenet_v3_small"),
        *("fasterrcnn_mobilenet_v3_large_320_fpn", "fasterrcnn_mobilenet_v3_large_fpn"),
        "ssdlite320_mobilenet_v3_large",
    ]
    assert [each.name for each in list_models(["vgg1?", "alexnet"])] == [
        *("alexnet", "vgg11", "vgg13", "vgg16", "vgg19")
    ]


def test_a_name_that_is_none_is_refused_with_those_that_are_close():
    with pytest.raises(ConfigError, match="no model 'resnet5O'; did you mean resnet50"):
        list_models(["resnet5O"])


def test_weights_are_at_hand_where_their_file_lies_in_the_cache(tmp_path):
    before = torch.hub.get_dir()
    torch.hub.set_dir(str(tmp_path))
    try:
        assert not list_models(["alexnet"])[0].is_at_hand
        file = tmp_path / "checkpoints" / "alexnet-owt-7be5be79.pth"
        file.parent.mkdir()
        file.write_bytes(b"x")
        assert list_models(["alexnet"])[0].is_at_hand
    finally:
        torch.hub.set_dir(before)
