"""The models there are, and what they take."""

import pytest

from headrace.models.catalogue import FACE_DETECTOR, input_of, names_of, preset_of, task_of
from headrace.models.load import (
    load_classifier,
    load_clip_classifier,
    load_detector,
    load_features,
)
from models.refusals import refused


@pytest.mark.parametrize(
    ("name", "close"), [("resnet5O", "resnet50"), ("MobileNet_v2", "mobilenet_v2"), ("", "alexnet")]
)
def test_an_unknown_model_is_refused_with_close_names(name, close):
    listed = "(80 in torchvision.models.list_models())"
    with refused(f"no classification model {name!r}; did you mean", close, listed):
        load_classifier(name, "none")


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
