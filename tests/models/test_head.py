"""Head of a classifier: name, replacement, trained layers, file, and features at its input."""

from pathlib import Path

import pytest
import torch
from torch import nn
from torchvision import models

from headrace.models.catalogue import names_of
from headrace.models.checkpoint import TrainedHead, backbone_checksum
from headrace.models.evaluation_mode import freeze_before, recompute
from headrace.models.feature_extractor import HeadTap, head_of, replace_head
from headrace.models.load import load_classifier, with_weights
from models.tiny import bare, refused

HEADS = {
    **dict.fromkeys(("alexnet", "vgg"), "classifier.6"),
    **dict.fromkeys(("efficientnet", "mnasnet", "mobilenet_v2", "squeezenet"), "classifier.1"),
    **dict.fromkeys(("googlenet", "inception", "regnet", "shufflenet"), "fc"),
    **dict.fromkeys(("resnet", "resnext", "wide_resnet"), "fc"),
    **{"convnext": "classifier.2", "densenet": "classifier", "mobilenet_v3": "classifier.3"},
    **{"maxvit": "classifier.5", "swin": "head", "vit": "heads.head"},
}
"""Prefix of a model's name → name of its head."""


def expected_head(name: str) -> str:
    return HEADS[max(filter(name.startswith, HEADS), key=len)]


FIRST_REGNETS = ["regnet_x_400mf", "regnet_y_400mf"]
"""All others have the same layout; they need memory."""
CLASSIFIERS = [name for name in names_of("classification") if not name.startswith("regnet")]
SMALL = {min(n for n in CLASSIFIERS if n.startswith(kind)) for kind in HEADS if kind != "regnet"}
"""The first of each kind."""


@pytest.mark.parametrize(
    "name",
    [
        *FIRST_REGNETS,
        *(pytest.param(n, marks=() if n in SMALL else pytest.mark.slow) for n in CLASSIFIERS),
    ],
)
def test_every_classifier_of_torchvision_gets_a_new_head(name):
    module = bare(name)
    assert replace_head(module, 7) == expected_head(name)
    head = module.get_submodule(expected_head(name))
    assert head.weight.shape[0] == 7
    assert head.weight.is_meta or name in FIRST_REGNETS


def test_a_convolutional_head_scores_the_new_classes():
    module = models.squeezenet1_1().eval()
    replace_head(module, 5)
    with torch.inference_mode():
        assert module(torch.zeros(2, 3, 64, 64)).shape == (2, 5)


def test_a_new_head_depends_only_on_its_seed():
    weights = []
    for seed in (3, 3, 4):
        module = nn.Sequential(nn.Linear(4, 1000))
        state = torch.random.get_rng_state()
        replace_head(module, 6, seed=seed)
        assert torch.equal(torch.random.get_rng_state(), state)
        weights.append(module[0].weight.detach())
        assert not module[0].bias.any()
        assert weights[-1].abs().max() <= 0.5
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


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
    assert [file.name for file in path.parent.iterdir()] == ["head.pt"]


def test_the_backbone_file_has_its_recorded_path_or_is_beside_the_head(path, small, save, tmp_path):
    backbone = Path(save(small, "backbone.pth"))
    folder = tmp_path / "there"
    folder.mkdir()
    trained_head(str(backbone)).save(folder / "head.pt")
    assert load_classifier(NAME, str(folder / "head.pt")).origin.endswith(f"on {backbone}")
    backbone.rename(folder / "backbone.pth")
    assert load_classifier(NAME, str(folder / "head.pt")).origin.endswith("there/backbone.pth")
    (folder / "backbone.pth").unlink()
    with refused("backbone.pth of the head", "do not exist; restore them, or put them beside"):
        load_classifier(NAME, str(folder / "head.pt"))


def test_a_head_of_another_model_or_backbone_is_refused(path):
    trained_head().save(path)
    with refused("was trained for squeezenet1_1, not for resnet18; give --model-name squeezenet"):
        load_classifier("resnet18", str(path))
    trained_head(checksum=1).save(path)
    with refused("different backbone weights (none of squeezenet1_1)", "train it again"):
        load_classifier(NAME, str(path))


def test_a_head_on_a_head_is_refused(path, tmp_path):
    trained_head().save(tmp_path / "first.pt")
    trained_head(backbone=str(tmp_path / "first.pt")).save(path)
    with refused("backbone weights", "first.pt of the head", "are themselves a head"):
        load_classifier(NAME, str(path))
    trained_head(backbone=str(path)).save(path)
    with refused("do not exist"):
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
    assert [file.name for file in tmp_path.iterdir()] == ["head.pt"]


def test_only_the_head_is_trained_by_default():
    module = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Flatten(), nn.Linear(4, 2))
    assert freeze_before(module, head_of(module)) == ("2.weight", "2.bias")
    assert [weights.requires_grad for weights in module.parameters()] == [False, False, True, True]
    assert recompute(module) == 0


LAST_OF_VIT = "encoder.layers.encoder_layer_11"
FIRST_TRAINED = {
    ("resnet18", "layer4"): "layer4.0.conv1.weight",
    ("resnet18", "avgpool"): "fc.weight",
    ("mobilenet_v2", "features.18"): "features.18.0.weight",
    ("vgg11", "classifier"): "classifier.0.weight",
    ("vit_b_16", LAST_OF_VIT): f"{LAST_OF_VIT}.ln_1.weight",
    ("swin_t", "features.7.1"): "features.7.1.norm1.weight",
    ("squeezenet1_1", "classifier.2"): "classifier.1.weight",  # a layer after the head
}


@pytest.mark.parametrize(("name", "layer"), FIRST_TRAINED)
def test_a_layer_and_all_later_layers_are_trained(name, layer):
    with torch.device("meta"):
        module = models.get_model(name)
    trained = freeze_before(module, head_of(module), layer)
    assert trained[0] == FIRST_TRAINED[name, layer]
    names = [name for name, _ in module.named_parameters()]
    assert trained == tuple(names[names.index(trained[0]) :])


def saved_bytes(module: nn.Module, batch: torch.Tensor) -> tuple[int, list[torch.Tensor]]:
    """Return the bytes that a forward pass saves for the backward pass, and the gradients."""
    sizes: dict[int, int] = {}

    def save(tensor: torch.Tensor) -> torch.Tensor:
        sizes[tensor.data_ptr()] = tensor.nbytes
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
        loss = module(batch).square().sum()
    trained = [weights for weights in module.parameters() if weights.requires_grad]
    return sum(sizes.values()), list(torch.autograd.grad(loss, trained))


def test_recomputing_saves_memory_and_keeps_the_gradients():
    module = models.resnet18().eval()
    freeze_before(module, "fc", "layer3")
    batch = torch.linspace(-1, 1, 2 * 3 * 64 * 64).reshape(2, 3, 64, 64)
    plain_bytes, gradients = saved_bytes(module, batch)
    assert recompute(module) == 4
    recomputing_bytes, recomputed = saved_bytes(module, batch)
    assert recomputing_bytes < 0.7 * plain_bytes
    assert all(torch.equal(*pair) for pair in zip(gradients, recomputed, strict=True))


POOLED = [
    *(("resnet18", "fc", 512), ("vgg11", "classifier.6", 4096), ("swin_t", "head", 768)),
    *(("efficientnet_b0", "classifier.1", 1280), ("mobilenet_v3_small", "classifier.3", 1024)),
    *(("vit_b_32", "heads.head", 768), ("convnext_tiny", "classifier.2", 768)),
    *(("squeezenet1_1", "classifier.1", 512), ("r3d_18", "fc", 512)),
    ("s3d", "classifier.1", 1024),
]


@pytest.mark.parametrize(("name", "head", "features"), POOLED)
def test_pooled_features_are_the_input_of_the_head(name, head, features):
    """On the meta device, which computes only shapes."""
    with torch.device("meta"), torch.inference_mode():
        built = with_weights(name, "none")
        tap = HeadTap(built.module).eval()
        pooled = tap(torch.zeros(built.input.shape(1, (64, 64))))
    assert (tap.head, pooled.shape) == (head, (1, features))


def test_features_equal_the_input_of_the_last_layer():
    model, batch = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 5)), torch.ones(2, 3)
    assert torch.equal(HeadTap(model)(batch), model[0](batch))
