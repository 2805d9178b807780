"""The head of a classifier: found, replaced, trained, saved, and put back where it belongs."""

from pathlib import Path

import pytest
import torch
from torch import nn
from torchvision import models

from headrace.models.catalogue import names_of
from headrace.models.evaluation_mode import freeze_before, recompute
from headrace.models.head import HeadTap, head_of, replace_head
from headrace.models.load import load_classifier
from headrace.models.load_weights import with_weights
from headrace.models.trained_head import TrainedHead, backbone_checksum
from models.tiny import refused

HEADS = {
    **dict.fromkeys(("alexnet", "vgg"), "classifier.6"),
    **dict.fromkeys(("efficientnet", "mnasnet", "mobilenet_v2", "squeezenet"), "classifier.1"),
    **dict.fromkeys(("googlenet", "inception", "regnet", "shufflenet"), "fc"),
    **dict.fromkeys(("resnet", "resnext", "wide_resnet"), "fc"),
    **{"convnext": "classifier.2", "densenet": "classifier", "mobilenet_v3": "classifier.3"},
    **{"maxvit": "classifier.5", "swin": "head", "vit": "heads.head"},
}
"""Beginning of a model's name → where torchvision has its head."""


def bare(name: str) -> nn.Module:
    """Return a model of torchvision without memory for its weights, where it can be built so."""
    options = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    with torch.device("cpu" if name.startswith("regnet") else "meta"):
        return models.get_model(name, weights=None, **options)


def expected_head(name: str) -> str:
    return HEADS[max((each for each in HEADS if name.startswith(each)), key=len)]


FIRST_REGNETS = ["regnet_x_400mf", "regnet_y_400mf"]
"""The others of their kind are built alike, and need memory."""
CLASSIFIERS = [each for each in names_of("classification") if not each.startswith("regnet")]


@pytest.mark.parametrize("name", [*CLASSIFIERS, *FIRST_REGNETS])
def test_every_classifier_of_torchvision_gets_a_new_head(name):
    module = bare(name)
    assert replace_head(module, 7) == expected_head(name)
    head = module.get_submodule(expected_head(name))
    assert head.weight.shape[0] == 7
    assert head.weight.is_meta or name in FIRST_REGNETS


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


NAME = "squeezenet1_1"
TRAINED = ("classifier.1.weight", "classifier.1.bias")


def trained_head(weights: str = "none", **changes: object) -> TrainedHead:
    """Return a head for two classes whose weights are all 0.5."""
    module = with_weights(NAME, weights).module
    replace_head(module, 2)
    state = module.state_dict()
    parts = {
        "model": NAME,
        "backbone": weights,
        "checksum": backbone_checksum(module, TRAINED),
        "classes": ("cat", "dög"),
        "state": {name: torch.full_like(state[name], 0.5) for name in TRAINED},
    }
    return TrainedHead(**(parts | changes))


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "head.pt"


def test_a_saved_head_is_loaded_with_its_classes(path):
    trained_head().save(path)
    model = load_classifier(NAME, str(path), top_k=2)
    module = model.module
    assert (module.get_submodule("classifier.1").weight == 0.5).all()
    first = with_weights(NAME, "none").module.state_dict()["features.0.weight"]
    assert torch.equal(module.state_dict()["features.0.weight"], first)
    assert model.run(torch.zeros(1, 3, 64, 64)).names == (("cat", "dög"),)
    assert model.origin == f"{path}, on random, seed 0"
    assert not module.training
    assert [each.name for each in path.parent.iterdir()] == ["head.pt"]


def test_a_backbone_is_found_where_it_was_or_beside_the_head(path, small, save, tmp_path):
    backbone = Path(save(small, "backbone.pth"))
    there = tmp_path / "there"
    there.mkdir()
    trained_head(str(backbone)).save(there / "head.pt")
    assert load_classifier(NAME, str(there / "head.pt")).origin.endswith(f"on {backbone}")
    backbone.rename(there / "backbone.pth")
    assert load_classifier(NAME, str(there / "head.pt")).origin.endswith("there/backbone.pth")
    (there / "backbone.pth").unlink()
    with refused("belongs on the weights", "backbone.pth", "put them back, or beside the head"):
        load_classifier(NAME, str(there / "head.pt"))


def test_a_head_of_another_model_or_backbone_is_refused_by_what_to_type(path):
    trained_head().save(path)
    with refused("was trained for squeezenet1_1, not for resnet18; give --model-name squeezenet"):
        load_classifier("resnet18", str(path))
    trained_head(checksum=1).save(path)
    with refused("was trained on other weights none of squeezenet1_1", "train it again"):
        load_classifier(NAME, str(path))


def test_a_head_on_a_head_is_refused(path, tmp_path):
    trained_head().save(tmp_path / "first.pt")
    trained_head(backbone=str(tmp_path / "first.pt")).save(path)
    with refused("belongs on", "first.pt, which is a head itself"):
        load_classifier(NAME, str(path))
    trained_head(backbone=str(path)).save(path)
    with refused("which are not there"):
        load_classifier(NAME, str(path))


DAMAGED = [
    ({"headrace_head": 2}, "has layout 2, this headrace reads 1"),
    ({"classes": []}, "is damaged; train it again"),
    ({"classes": [1]}, "is damaged; train it again"),
    ({"state_dict": {"classifier.1.weight": 3}}, "is damaged; train it again"),
    ({"checksum": None}, "is damaged; train it again"),
    ({"classes": ["one"]}, "does not fit squeezenet1_1; train it again"),
    ({"state_dict": {"elsewhere": torch.zeros(1)}}, "does not fit squeezenet1_1"),
]


@pytest.mark.parametrize(("change", "message"), DAMAGED)
def test_a_damaged_head_is_refused(path, change, message):
    trained_head().save(path)
    content = torch.load(path, weights_only=True)
    torch.save(content | change, path)
    with refused(f"the head {path}", message):
        load_classifier(NAME, str(path))


def test_a_head_that_cannot_be_written_leaves_nothing(tmp_path):
    with refused("cannot write the head", "give another folder with --out"):
        trained_head().save(tmp_path / "missing" / "head.pt")
    (tmp_path / "head.pt").mkdir()
    with refused("cannot write the head"):
        trained_head().save(tmp_path / "head.pt")
    assert [each.name for each in tmp_path.iterdir()] == ["head.pt"]


def test_the_head_alone_is_trained_unless_more_is_asked_for():
    module = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Flatten(), nn.Linear(4, 2))
    assert freeze_before(module, head_of(module)) == ("2.weight", "2.bias")
    assert [each.requires_grad for each in module.parameters()] == [False, False, True, True]
    assert recompute(module) == 0, "there is nothing that could be"


LAST_OF_VIT = "encoder.layers.encoder_layer_11"
FIRST_TRAINED = {
    ("resnet18", "layer4"): "layer4.0.conv1.weight",
    ("resnet18", "avgpool"): "fc.weight",
    ("mobilenet_v2", "features.18"): "features.18.0.weight",
    ("vgg11", "classifier"): "classifier.0.weight",
    ("vit_b_16", LAST_OF_VIT): f"{LAST_OF_VIT}.ln_1.weight",
    ("swin_t", "features.7.1"): "features.7.1.norm1.weight",
    ("squeezenet1_1", "classifier.2"): "classifier.1.weight",  # A layer behind the head.
}


@pytest.mark.parametrize(("name", "layer"), FIRST_TRAINED)
def test_all_from_a_layer_on_is_trained(name, layer):
    with torch.device("meta"):
        module = models.get_model(name)
    trained = freeze_before(module, head_of(module), layer)
    assert trained[0] == FIRST_TRAINED[name, layer]
    names = [name for name, _ in module.named_parameters()]
    assert trained == tuple(names[names.index(trained[0]) :])


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


POOLED = [
    *(("resnet18", "fc", 512), ("vgg11", "classifier.6", 4096), ("swin_t", "head", 768)),
    *(("efficientnet_b0", "classifier.1", 1280), ("mobilenet_v3_small", "classifier.3", 1024)),
    *(("vit_b_32", "heads.head", 768), ("convnext_tiny", "classifier.2", 768)),
    *(("squeezenet1_1", "classifier.1", 512), ("r3d_18", "fc", 512)),
    ("s3d", "classifier.1", 1024),
]


@pytest.mark.parametrize(("name", "head", "features"), POOLED)
def test_pooled_features_are_what_the_classifier_is_given(name, head, features):
    built = with_weights(name, "none")
    tap = HeadTap(built.module).eval()
    # s3d halves the time until nothing is left of shorter clips.
    time = () if built.input.num_frames is None else (13 if name == "s3d" else 2,)
    side = built.input.crop if name in ("vit_b_32", "s3d") else 64
    with torch.inference_mode():
        found = tap(torch.zeros(1, 3, *time, side, side))
    assert (tap.head, found.shape) == (head, (1, features))


def test_features_are_the_input_of_the_last_layer_bit_for_bit():
    model, batch = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 5)), torch.ones(2, 3)
    assert torch.equal(HeadTap(model)(batch), model[0](batch))
