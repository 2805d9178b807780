"""Names, inputs and smaller alternatives of models."""

import pytest
import torch
from torchvision import models

from headrace.models import catalogue
from headrace.models.catalogue import list_models
from headrace.models.load import load_clip_classifier, with_clip_length


def test_the_task_of_a_model_is_known_by_its_name():
    kinds = {"vgg11": "classification", "s3d": "video", "fcos_resnet50_fpn": "detection"}
    assert {name: catalogue.task_of(name) for name in kinds} == kinds


SHAPES = {
    "mobilenet_v2": (2, 3, 224, 224),
    "efficientnet_b1": (2, 3, 240, 240),
    "r3d_18": (2, 3, 16, 112, 112),
    "mvit_v1_b": (2, 3, 16, 224, 224),
    "s3d": (2, 3, 128, 224, 224),
    "swin3d_t": (2, 3, 32, 224, 224),
    "fasterrcnn_resnet50_fpn": (2, 3, 480, 640),
}


@pytest.mark.parametrize(("name", "shape"), SHAPES.items())
def test_the_input_of_a_model_follows_from_its_weights(name, shape):
    spec = catalogue.input_of(name, catalogue.preset_of(name, "DEFAULT"))
    assert spec.shape(2, (480, 640)) == shape


def test_every_torchvision_model_has_an_input_spec():
    for task in ("classification", "detection", "video"):
        for name in sorted({*catalogue.names_of(task)} - {catalogue.FACE_DETECTOR}):
            spec = catalogue.input_of(name, catalogue.preset_of(name, "DEFAULT"))
            assert (spec.num_frames is None) == (task != "video"), name
            assert (spec.crop is None) == (task == "detection"), name


def test_every_model_is_listed_by_kind_and_name():
    listed = list_models()
    kinds = [model.kind for model in listed]
    assert kinds == sorted(kinds, key=["pictures", "clips", "detector"].index)
    names = {model.name: model for model in listed}
    assert {"resnet50", "vit_b_16", "r3d_18", "fasterrcnn_resnet50_fpn", "mtcnn"} <= names.keys()
    assert (names["mtcnn"].parameters, names["mtcnn"].is_at_hand) == (495_850, True)
    assert names["resnet50"].input.shape(1, (480, 640)) == (1, 3, 224, 224)
    assert names["r3d_18"].input.num_frames == 16
    assert names["fasterrcnn_resnet50_fpn"].input.crop is None


@pytest.mark.parametrize("name", ["mobilenet_v2", "resnet18", "vit_b_32", "swin_t", "r3d_18"])
def test_listed_parameters_equal_the_parameters_of_the_model(name):
    with torch.device("meta"):
        module = models.get_model(name, weights=None)
    (listed,) = list_models([name])
    assert listed.parameters == sum(weights.numel() for weights in module.parameters())


SELECTED = {
    ("resnet50",): ["resnet50"],
    ("mobilenet_v3",): [
        *("mobilenet_v3_large", "mobilenet_v3_small"),
        *("fasterrcnn_mobilenet_v3_large_320_fpn", "fasterrcnn_mobilenet_v3_large_fpn"),
        "ssdlite320_mobilenet_v3_large",
    ],
    ("vgg1?", "alexnet"): ["alexnet", "vgg11", "vgg13", "vgg16", "vgg19"],
}


@pytest.mark.parametrize(("patterns", "names"), SELECTED.items())
def test_names_parts_of_names_and_globs_select_models(patterns, names):
    assert [model.name for model in list_models(patterns)] == names


def test_weights_are_at_hand_if_their_file_is_in_the_cache(hub):
    assert not list_models(["alexnet"])[0].is_at_hand
    (hub / "alexnet-owt-7be5be79.pth").write_bytes(b"x")
    assert list_models(["alexnet"])[0].is_at_hand


def test_clips_may_have_another_length_than_the_default():
    model = with_clip_length(load_clip_classifier("r3d_18", "none"), 3)
    assert model.input.shape(1, (4, 4)) == (1, 3, 3, 112, 112)
    assert len(model.run(torch.zeros(1, 3, 3, 32, 32)).names) == 1
    assert with_clip_length(model, None) is model


def test_the_min_clip_length_of_s3d_runs_and_a_shorter_one_does_not():
    with torch.device("meta"):
        module = load_clip_classifier("s3d", "none").module
        module(torch.zeros(1, 3, 13, 224, 224))
        with pytest.raises(RuntimeError):
            module(torch.zeros(1, 3, 12, 224, 224))


@pytest.mark.parametrize("name", models.list_models(module=models))
def test_a_smaller_model_is_the_most_accurate_with_a_quarter_of_the_work(name):
    other = catalogue.smaller_model(name)
    work = {model: _meta(model)["_ops"] for model in models.list_models(module=models)}
    small = [model for model in work if work[model] <= work[name] / 4]
    assert other in (small or [None])
    assert other is None or _accuracy(other) == max(map(_accuracy, small))


def test_a_custom_model_has_no_smaller_alternative():
    assert catalogue.smaller_model("my_own") is None


def test_files_of_torchvision_are_not_custom_weights():
    for weights in ("DEFAULT", "none", "cache/mobilenet_v2-b0353104.pth"):
        assert not catalogue.has_custom_weights("mobilenet_v2", weights)
    for weights in ("runs/best.pth", "resnet18-f37072fd.pth"):
        assert catalogue.has_custom_weights("mobilenet_v2", weights)
    assert catalogue.has_custom_weights("my_own", "runs/best.pth")
    assert catalogue.has_custom_weights(catalogue.FACE_DETECTOR, "faces.pth")


def _meta(name):
    return models.get_model_weights(name).DEFAULT.meta


def _accuracy(name):
    return _meta(name)["_metrics"]["ImageNet-1K"]["acc@1"]
