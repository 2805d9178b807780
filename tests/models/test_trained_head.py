"""A head is saved, and put back on the backbone it was trained on, or refused."""

from pathlib import Path

import pytest
import torch

from headrace.models.head import replace_head
from headrace.models.load import load_classifier
from headrace.models.trained_head import TrainedHead, backbone_checksum
from headrace.models.weights import with_weights
from models.refusals import refused

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


def test_a_head_of_another_model_is_refused_by_what_to_type(path):
    trained_head().save(path)
    with refused("was trained for squeezenet1_1, not for resnet18; give --model-name squeezenet"):
        load_classifier("resnet18", str(path))


def test_a_head_is_refused_on_a_backbone_that_changed(path):
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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"headrace_head": 2}, "has layout 2, this headrace reads 1"),
        ({"classes": []}, "is damaged; train it again"),
        ({"classes": [1]}, "is damaged; train it again"),
        ({"state_dict": {"classifier.1.weight": 3}}, "is damaged; train it again"),
        ({"checksum": None}, "is damaged; train it again"),
        ({"classes": ["one"]}, "does not fit squeezenet1_1; train it again"),
        ({"state_dict": {"elsewhere": torch.zeros(1)}}, "does not fit squeezenet1_1"),
    ],
)
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
