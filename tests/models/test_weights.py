"""Weights from torchvision, checkpoints and random numbers, and errors of unusable files."""

import os
import re
from pathlib import Path

import pytest
import torch
from torch import nn
from torchvision import models

from headrace.models.checkpoint import TrainedHead, weights_digest
from headrace.models.load import load_classifier, load_clip_classifier, load_detector, weight_files
from headrace.models.results import BoxChoice, ClassNames
from models.tiny import bare, refused
from weights import mobilenet


def shapes_of(name: str, **options: object) -> dict[str, torch.Tensor]:
    """Return a state dict of zeros that fits the model and is small on disk."""
    state = bare(name, **options).state_dict()
    return {k: torch.zeros((), dtype=v.dtype).expand(v.shape) for k, v in state.items()}


def classes(model) -> ClassNames:
    return model.output.class_names


def num_scores(model, *time: int) -> int:
    """Return the number of classes that the module scores: on the meta device, without values."""
    side = model.input.crop
    scores = model.module.to("meta")(torch.empty(1, 3, *time, side, side, device="meta"))
    assert scores.shape[:-1] == (1,)
    return scores.shape[-1]


def test_real_weights_have_their_labels_and_preset():
    model = load_classifier("mobilenet_v2", str(mobilenet()))
    assert (len(classes(model).names), classes(model)[281]) == (1000, "tabby")
    assert (model.input.resize, model.input.crop) == (256, 224)
    assert not model.module.training
    assert model.origin == str(mobilenet())


def test_random_weights_are_reproducible_and_have_no_labels():
    state = torch.random.get_rng_state()
    first, second = (load_classifier("squeezenet1_1", "none") for _ in range(2))
    assert torch.equal(next(first.module.parameters()), next(second.module.parameters()))
    assert (classes(first).names, classes(first)[3], first.origin) == (
        None,
        "class 3",
        "random, seed 0",
    )
    # GoogLeNet normalises its input again, as with torchvision's weights.
    assert load_classifier("googlenet", "none").module.transform_input
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("wrap", [None, "state_dict", "model"])
@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod.", "module._orig_mod."])
def test_a_checkpoint_may_be_wrapped_prefixed_and_in_half_precision(save, small, wrap, prefix):
    for dtype in (torch.float32, torch.float16):
        state = {prefix + key: value.to(dtype) for key, value in small.items()}
        model = load_classifier("squeezenet1_1", save({wrap: state, "epoch": 3} if wrap else state))
        loaded = model.module.state_dict()
        assert all(torch.equal(loaded[key], small[key].to(dtype).float()) for key in small)
        assert all(value.dtype == torch.float32 for value in model.module.parameters())


HEADS = ["squeezenet1_1", "shufflenet_v2_x0_5", "googlenet", "maxvit_t", "regnet_y_400mf"]


@pytest.mark.parametrize("name", HEADS)
def test_a_checkpoint_with_another_number_of_classes_has_no_labels(save, name):
    state = shapes_of(name, num_classes=7)
    model = load_classifier(name, save(dict(reversed(state.items()))))
    assert num_scores(model) == 7
    assert classes(model).names is None


def test_old_files_without_num_batches_tracked_are_read(save):
    state = shapes_of("shufflenet_v2_x0_5")
    old = {key: value for key, value in state.items() if "num_batches_tracked" not in key}
    assert len(old) < len(state)
    assert num_scores(load_classifier("shufflenet_v2_x0_5", save(old))) == 1000


def test_the_old_names_of_torchvisions_densenet_files_are_known(save):
    state = shapes_of("densenet121")
    old = {re.sub(r"(denselayer\d+\.(?:norm|conv))", r"\1.", key): v for key, v in state.items()}
    assert "features.denseblock1.denselayer1.norm.1.weight" in old
    model = load_classifier("densenet121", save(old, "densenet121-a639ec97.pth"))
    assert classes(model).names


def test_weights_for_larger_images_set_the_input_size(save):
    path = save(shapes_of("vit_b_16", image_size=384), "vit_b_16_swag-9ac1b537.pth")
    model = load_classifier("vit_b_16", path)
    assert (model.input.crop, model.input.interpolation) == (384, "bicubic")
    assert model.module.image_size == 384


DEFAULT = models.MobileNet_V2_Weights.DEFAULT


def test_default_weights_are_read_from_torchvisions_cache(hub, no_network):
    (hub / DEFAULT.url.rpartition("/")[2]).symlink_to(mobilenet())
    model = load_classifier("mobilenet_v2", "DEFAULT")
    assert model.origin == "torchvision MobileNet_V2_Weights.IMAGENET1K_V2"
    assert (model.input.resize, classes(model)[281]) == (232, "tabby")


def test_missing_or_damaged_default_weights_are_refused(hub, no_network, capsys):
    message = f"cannot load the weights MobileNet_V2_Weights ... {hub.parent} ... --weights"
    with refused(message):
        load_classifier("mobilenet_v2", "DEFAULT")
    assert capsys.readouterr().out == "", "stdout is for results"
    assert list(hub.iterdir()) == []
    (hub / DEFAULT.url.rpartition("/")[2]).write_bytes(b"damaged")
    with refused(message):
        load_classifier("mobilenet_v2", "DEFAULT")


DETECTORS = ("ssdlite320_mobilenet_v3_large", "fasterrcnn_mobilenet_v3_large_320_fpn")


@pytest.mark.parametrize("name", DETECTORS)
def test_a_detector_checkpoint_with_another_number_of_classes_has_no_labels(save, name):
    state = shapes_of(name, num_classes=5, weights_backbone=None)
    model = load_detector(name, save(state), BoxChoice(threshold=0))
    assert classes(model).names is None
    assert {key: value.shape for key, value in model.module.state_dict().items()} == {
        key: value.shape for key, value in state.items()
    }


def test_a_detector_does_not_download_backbone_weights(hub, no_network):
    model = load_detector("fasterrcnn_mobilenet_v3_large_320_fpn", "none")
    assert model.origin == "random, seed 0"
    assert list(hub.iterdir()) == []


def test_batch_norms_of_torchvisions_old_detector_files_have_eps_0(save):
    """torchvision sets it only when it loads the file itself."""
    state = shapes_of("fasterrcnn_resnet50_fpn", weights_backbone=None)
    for file, eps in (("fasterrcnn_resnet50_fpn_coco-258fb6c6.pth", 0.0), ("mine.pth", 1e-5)):
        model = load_detector("fasterrcnn_resnet50_fpn", save(state, file))
        norms = [m for m in model.module.modules() if isinstance(m, torch.nn.BatchNorm2d)]
        assert {norm.eps for norm in norms} == {eps}
        assert classes(model)[1] == "person"


@pytest.mark.parametrize(("name", "num_classes"), [("r3d_18", 400), ("s3d", 7)])
def test_a_video_model_loads_a_checkpoint(save, name, num_classes):
    model = load_clip_classifier(name, save(shapes_of(name, num_classes=num_classes)))
    assert (classes(model).names is not None) == (num_classes == 400)
    assert num_scores(model, 14) == num_classes


def test_weight_files_include_the_backbone_of_a_head(tmp_path):
    assert weight_files("squeezenet1_1", "none") == []
    [default] = weight_files("squeezenet1_1", "DEFAULT")
    assert default.parent == Path(torch.hub.get_dir()) / "checkpoints"
    backbone, head = tmp_path / "backbone.pth", tmp_path / "head.pth"
    torch.save({"a": torch.zeros(1)}, backbone)
    fields = {"model": "squeezenet1_1", "backbone": str(backbone), "checksum": 0}
    TrainedHead(**fields, classes=("cat", "dog"), state={"a": torch.zeros(1)}).save(head)
    assert weight_files("squeezenet1_1", str(head)) == [head, backbone]


class Hostile:
    """Writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize("is_zipped", [True, False])
def test_a_checkpoint_with_code_is_refused_and_not_executed(tmp_path, is_zipped):
    hostile = {"a": Hostile(tmp_path / "ran")}
    torch.save(hostile, tmp_path / "w.pth", _use_new_zipfile_serialization=is_zipped)
    with refused(
        "is not a checkpoint, or needs code to load", "torch.save(model.state_dict(), path)"
    ):
        load_classifier("mobilenet_v2", str(tmp_path / "w.pth"))
    assert not (tmp_path / "ran").exists()


PICKLES = [b"\x80\x02", b"\x80\xed.", b"\x80\x02.", b"\x80\x02K", b"\x80\x02G1", b"\x80\x02h\x07"]
NO_CHECKPOINTS = [
    *(b"", b"not a checkpoint", b"PK\x03\x04 cut off", b"\x00\x00\x00\x20ftypisom", *PICKLES),
    b"\x80\x02X\x02\x00\x00\x00\xe2\x28",
]


NO_STATES = [[1, 2], {"a": 1}, {1: torch.zeros(1)}, {"state_dict": [3]}, torch.zeros(3)]
UNSAFE = "the weights file ... is not a checkpoint, or needs code to load"
STATELESS = "holds no state dict ... torch.save(model.state_dict(), path)"
UNREADABLE = [
    *((lambda path, data=data: path.write_bytes(data), UNSAFE) for data in NO_CHECKPOINTS),
    *((lambda path, data=data: torch.save(data, path), STATELESS) for data in NO_STATES),
    (lambda path: None, "cannot read the weights file ... w.pth: no such file ... DEFAULT or none"),
    (os.mkdir, "cannot read the weights file ... w.pth ... is a directory"),
]


@pytest.mark.parametrize(("write", "message"), UNREADABLE)
def test_a_file_that_is_not_a_checkpoint_is_refused(tmp_path, write, message):
    write(tmp_path / "w.pth")
    with refused(message):
        load_classifier("mobilenet_v2", str(tmp_path / "w.pth"))


def test_weights_of_another_model_are_refused_with_the_first_wrong_keys():
    with refused("do not fit resnet18: conv1.weight is missing;", "more", "--model-name"):
        load_classifier("resnet18", str(mobilenet()))


FIRST = "features.0.weight"
HEAD = "classifier.1.weight"
CHANGES = [
    ({"extra.weight": torch.zeros(1)}, "do not fit squeezenet1_1 ... extra.weight"),
    ({HEAD: torch.tensor(0.0)}, f"do not fit squeezenet1_1 ... {HEAD}"),
    ({FIRST: torch.zeros(2, 2)}, f"{FIRST} is [2, 2], the model has [64, 3, 3, 3]"),
    (None, f"do not fit squeezenet1_1: {FIRST} is missing ... and 49 more"),
]


@pytest.mark.parametrize(("changed", "message"), CHANGES)
def test_an_extra_missing_or_reshaped_key_is_refused(save, small, changed, message):
    with refused(message):
        load_classifier("squeezenet1_1", save({} if changed is None else {**small, **changed}))


def module(weight=1.0):
    built = nn.Sequential(nn.Conv2d(3, 2, 1), nn.BatchNorm2d(2))
    built.load_state_dict({k: torch.ones_like(v) for k, v in built.state_dict().items()})
    built[0].weight.data[0] = weight
    return built


def test_equal_weights_have_one_digest_in_every_memory_format():
    assert weights_digest(module()) == weights_digest(module())
    channels_last = module().to(memory_format=torch.channels_last)
    assert weights_digest(channels_last) == weights_digest(module())
    assert len(weights_digest(module())) == len("sha256:") + 64


def module_of(**buffers):
    built = nn.Module()
    for name, buffer in buffers.items():
        built.register_buffer(name, buffer)
    return built


def test_a_changed_value_dtype_shape_or_buffer_changes_the_digest():
    counted = module()
    counted[1].running_mean[0] += 1
    others = [
        *(module(), module(weight=1 + 2**-23), module().half(), counted),
        *(module_of(a=torch.ones(4)), module_of(a=torch.ones(2, 2)), module_of(b=torch.tensor(3))),
        module_of(b=torch.ones(3, dtype=torch.bfloat16)),
    ]
    assert len({weights_digest(other) for other in others}) == len(others)
