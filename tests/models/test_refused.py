"""What models cannot be or do: refused in one line that says what to type instead."""

import pytest
import torch
from torch import nn
from torchvision import models

from headrace.errors import ConfigError
from headrace.models.box_choice import BoxChoice
from headrace.models.clip_length import with_clip_length
from headrace.models.compute import Compute, layer_of
from headrace.models.features import LayerTap
from headrace.models.freezing import freeze_before
from headrace.models.head import head_of
from headrace.models.listing import list_models
from headrace.models.load import load_classifier, load_clip_classifier, load_detector, load_features
from headrace.models.outputs import ToBoxes, ToLabels
from headrace.models.pooled import HeadTap
from headrace.models.split import SplitModule
from headrace.models.weights import with_weights
from models.tiny import COCO, UNNAMED, Applied, refused


def tied(module, batch):
    return module.inner(module.between(module.inner(batch)))


DECIDING = Applied(lambda m, batch: m.scale(batch) if batch.sum() > 0 else -batch, scale=nn.ReLU())
TIED = Applied(tied, inner=nn.Linear(4, 4), between=nn.ReLU())
PARTLY = Applied(lambda m, batch: m.first(batch), first=nn.Linear(3, 4), fc=nn.Linear(4, 5))
MAPPING = nn.Sequential(Applied(lambda m, batch: {"found": batch}))
TWO = torch.ones(2, 3)


def without_weights(load, *names):
    return lambda: load(*names, "none")


def split(layer):
    def split():
        with torch.device("meta"):
            module = models.resnet18()
        SplitModule(module.eval(), layer)

    return split


def lengthened(name, num_frames, load=load_clip_classifier):
    return lambda: with_clip_length(load(name, "none"), num_frames)


def layers(*names):
    return without_weights(load_features, "resnet18", names)


LISTED = "(80 in torchvision.models.list_models())"
REFUSED = {
    # Names of models.
    f"no classification model 'resnet5O'; did you mean ... resnet50 ... {LISTED}": (
        without_weights(load_classifier, "resnet5O")
    ),
    f"no classification model 'MobileNet_v2'; did you mean ... mobilenet_v2 ... {LISTED}": (
        without_weights(load_classifier, "MobileNet_v2")
    ),
    "no classification model 'r3d_18' (it is a video model);": without_weights(
        load_classifier, "r3d_18"
    ),
    "no video model 'resnet18' (it is a classification": without_weights(
        load_clip_classifier, "resnet18"
    ),
    "no detection model 'ssd3OO_vgg16'; did you mean ssd300_vgg16": without_weights(
        load_detector, "ssd3OO_vgg16"
    ),
    "no model 'vgg12'; did you mean vgg": without_weights(load_features, "vgg12", ["features"]),
    "no model 'resnet5O'; did you mean resnet50": lambda: list_models(["resnet5O"]),
    "mtcnn has the weights inside ... got 'none'; leave out": (
        without_weights(load_detector, "mtcnn")
    ),
    "mtcnn is not of torchvision: it gives boxes": lambda: with_weights("mtcnn", "DEFAULT"),
    # Lengths of clips.
    "mvit_v1_b takes clips of 16 frames, no others; got 8": lengthened("mvit_v1_b", 8),
    "s3d takes clips of 13 frames or more, got 12": lengthened("s3d", 12),
    "mobilenet_v2 takes single frames; leave out --clip-len": (
        lengthened("mobilenet_v2", 8, load_classifier)
    ),
    # Layers.
    "no layer 'layr4'; did you mean layer4": layers("layr4"),
    "no layer '@'; there are conv1, bn1, relu, maxpool, layer1, ... avgpool, fc": layers("@"),
    "no layer '' ... there are conv1": layers(""),
    "no layer was asked for; there are conv1": layers(),
    "no layer 'layer5'; did you mean layer4": (
        lambda: freeze_before(models.resnet18(), "fc", "layer5")
    ),
    "did not run its layer fc, which serves training": lambda: LayerTap(PARTLY, ["first", "fc"])(
        TWO
    ),
    "layer 0 gives dict of ... , not a tensor; choose a": lambda: LayerTap(MAPPING, ["0"])(TWO),
    # Heads.
    "Flatten has no linear or convolutional layer": lambda: head_of(nn.Flatten()),
    "ReLU has no linear or convolutional layer": lambda: HeadTap(nn.ReLU()),
    "did not run its layer fc": lambda: HeadTap(PARTLY)(TWO),
    # Places to cut a model.
    "no layer 'layer33' to be cut behind; did you mean layer3, ... 58 cut points": (
        split("layer33")
    ),
    "no layer '' to be cut behind; it can be cut behind conv1, bn1, relu, maxpool, layer1": (
        split("")
    ),
    "cannot be cut behind fc: nothing is left to compute behind it": split("fc"),
    "cannot be cut behind layer1.0.relu: it runs 2 times, not once; did you": (
        split("layer1.0.relu")
    ),
    "cannot be cut: what it computes depends on ... run it w": (
        lambda: SplitModule(DECIDING, "scale")
    ),
    "behind between: both parts would need inner.weight": lambda: SplitModule(TIED, "between"),
    "of resnet50, and the model is vgg11; give vgg11:layer3": (
        lambda: layer_of("resnet50:layer3", "vgg11")
    ),
    "names no layer; give MODEL:LAYER": lambda: layer_of("resnet50:", "resnet50"),
    # How to compute.
    "leave out --enable-compile or --split-point": (
        lambda: Compute(compile=True, split_layer="layer3")
    ),
    "device must be one of cpu, cuda, got 'tpu'": lambda: Compute(device="tpu"),
    "precision must be one of float32, float16, bfloat16, got 'int8'": (
        lambda: Compute(precision="int8")
    ),
    "warmup_batches must be an integer >= 1, got 0": lambda: Compute(warmup_batches=0),
    # Classes and boxes.
    "knows no class 'dgo'; did you mean dog? (3 classes)": lambda: COCO.number("dgo"),
    "knows no class 'n/a'; did you mean person": lambda: COCO.number("n/a"),
    "have no names of classes, got 'dog'; give their numbers": lambda: UNNAMED.number("dog"),
    "max_boxes must be an integer >= 1, got 0": lambda: BoxChoice(max_boxes=0),
    "threshold must lie in 0 to 1, got nan": lambda: BoxChoice(threshold=float("nan")),
    "top_k must be an integer >= 1, got 0": lambda: ToLabels(class_names=COCO, top_k=0),
    "threshold must lie in 0 to 1, got 70": lambda: BoxChoice(threshold=70),
    "knows no class 'cat'": lambda: ToBoxes(class_names=COCO, choice=BoxChoice(classes=("cat",))),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_is_refused_with_what_can(words):
    with refused(words):
        REFUSED[words]()


@pytest.mark.parametrize("name", ["yolov8n", "own.pt", "models/own.onnx", "own:build", "clip", ""])
def test_a_name_that_is_near_to_none_is_answered_with_where_other_models_go(name):
    with pytest.raises(ConfigError) as raised:
        load_classifier(name, "none")
    assert "did you mean" not in str(raised.value)
    assert "headrace.live(source, model)" in str(raised.value)
    assert "--model module:function of headrace extract features" in str(raised.value)
    assert ("--weights own.pt" in str(raised.value)) == (name == "own.pt")
