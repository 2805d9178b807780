"""The models there are, what they take, and which of them is smaller."""

import pytest
import torch
from torchvision import models

from headrace.errors import ConfigError
from headrace.models.catalogue import FACE_DETECTOR, input_of, names_of, preset_of, task_of
from headrace.models.clip_length import with_clip_length
from headrace.models.listing import list_models
from headrace.models.load import (
    load_classifier,
    load_clip_classifier,
    load_detector,
    load_features,
)
from headrace.models.smaller import smaller_model
from models.tiny import refused


@pytest.mark.parametrize(
    ("name", "close"), [("resnet5O", "resnet50"), ("MobileNet_v2", "mobilenet_v2")]
)
def test_an_unknown_model_is_refused_with_close_names(name, close):
    listed = "(80 in torchvision.models.list_models())"
    with refused(f"no classification model {name!r}; did you mean", close, listed):
        load_classifier(name, "none")


@pytest.mark.parametrize("name", ["yolov8n", "own.pt", "models/own.onnx", "own:build", "clip", ""])
def test_a_name_that_is_near_to_none_is_answered_with_where_other_models_go(name):
    with pytest.raises(ConfigError) as raised:
        load_classifier(name, "none")
    assert "did you mean" not in str(raised.value)
    assert "headrace.live(source, model)" in str(raised.value)
    assert "--model module:function of headrace extract features" in str(raised.value)
    assert ("--weights own.pt" in str(raised.value)) == (name == "own.pt")


@pytest.mark.parametrize(
    ("load", "name", "words"),
    [
        (load_classifier, "r3d_18", "no classification model 'r3d_18' (it is a video model);"),
        (load_clip_classifier, "resnet18", "no video model 'resnet18' (it is a classification"),
        (
            load_detector,
            "ssd3OO_vgg16",
            "no detection model 'ssd3OO_vgg16'; did you mean ssd300_vgg16",
        ),
    ],
)
def test_a_model_for_another_task_is_refused_and_its_task_told(load, name, words):
    with refused(words):
        load(name, "none")


def test_features_come_from_models_of_every_task():
    assert [task_of(name) for name in ("vgg11", "s3d", "fcos_resnet50_fpn")] == [
        "classification",
        "video",
        "detection",
    ]
    with refused("no model 'vgg12'; did you mean vgg"):
        load_features("vgg12", ["features"], "none")


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("mobilenet_v2", (2, 3, 224, 224)),
        ("efficientnet_b1", (2, 3, 240, 240)),
        ("r3d_18", (2, 3, 16, 112, 112)),
        ("mvit_v1_b", (2, 3, 16, 224, 224)),
        ("s3d", (2, 3, 128, 224, 224)),
        ("swin3d_t", (2, 3, 32, 224, 224)),
        ("fasterrcnn_resnet50_fpn", (2, 3, 480, 640)),
    ],
)
def test_what_a_model_takes_is_known_from_its_weights(name, shape):
    spec = input_of(name, preset_of(name, "DEFAULT"))
    assert spec.shape(2, (480, 640)) == shape


def test_every_model_of_torchvision_says_what_it_takes():
    for task in ("classification", "detection", "video"):
        for name in sorted({*names_of(task)} - {FACE_DETECTOR}):
            spec = input_of(name, preset_of(name, "DEFAULT"))
            assert (spec.num_frames is None) == (task != "video"), name
            assert (spec.crop is None) == (task == "detection"), name


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


def test_another_length_than_the_model_was_made_for():
    model = with_clip_length(load_clip_classifier("r3d_18", "none"), 3)
    assert model.input.shape(1, (4, 4)) == (1, 3, 3, 112, 112)
    assert len(model.run(torch.zeros(1, 3, 3, 32, 32)).names) == 1
    assert with_clip_length(model, None) is model


@pytest.mark.parametrize(
    ("name", "num_frames", "message"),
    [
        ("mvit_v1_b", 8, "mvit_v1_b takes clips of 16 frames, no others; got 8"),
        ("s3d", 12, "s3d takes clips of 13 frames or more, got 12"),
    ],
)
def test_a_length_that_is_not_possible_is_refused_with_what_is(name, num_frames, message):
    with pytest.raises(ConfigError, match=message):
        with_clip_length(load_clip_classifier(name, "none"), num_frames)


def test_a_model_of_pictures_takes_no_clips():
    with pytest.raises(ConfigError, match="mobilenet_v2 takes single frames; leave out --clip-len"):
        with_clip_length(load_classifier("mobilenet_v2", "none"), 8)


def test_the_least_length_of_s3d_runs_and_a_shorter_one_does_not():
    model = load_clip_classifier("s3d", "none")
    model.run(torch.zeros(1, 3, 13, 224, 224))
    with pytest.raises(RuntimeError):
        model.run(torch.zeros(1, 3, 12, 224, 224))


@pytest.mark.parametrize("name", models.list_models(module=models))
def test_it_has_at_most_a_quarter_of_the_arithmetic_and_is_the_best_of_those(name):
    other = smaller_model(name)
    work = {each: _meta(each)["_ops"] for each in models.list_models(module=models)}
    fitting = [each for each in work if work[each] <= work[name] / 4]
    if not fitting:
        assert other is None
        return
    assert other in fitting
    assert _accuracy(other) == max(map(_accuracy, fitting))


def test_a_model_of_somebody_elses_has_none():
    assert smaller_model("my_own") is None


def _meta(name):
    return models.get_model_weights(name).DEFAULT.meta


def _accuracy(name):
    return _meta(name)["_metrics"]["ImageNet-1K"]["acc@1"]
