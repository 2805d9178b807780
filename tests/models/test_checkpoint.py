"""Reading a checkpoint: nothing in it runs, and what does not fit is refused by name."""

import pytest
import torch

from headrace.models.load import load_classifier
from models.refusals import refused
from weights import mobilenet


class Hostile:
    """Writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize("is_zipped", [True, False])
def test_a_checkpoint_that_would_run_code_is_refused_and_runs_nothing(tmp_path, is_zipped):
    torch.save(
        {"a": Hostile(tmp_path / "ran")},
        tmp_path / "w.pth",
        _use_new_zipfile_serialization=is_zipped,
    )
    with refused("no checkpoint that can be read safely", "torch.save(model.state_dict(), path)"):
        load_classifier("mobilenet_v2", str(tmp_path / "w.pth"))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not a checkpoint",
        b"PK\x03\x04 cut off",
        b"\x00\x00\x00\x20ftypisom",
        b"\x80\x02",
        b"\x80\xed.",
        b"\x80\x02.",
        b"\x80\x02K",
        b"\x80\x02G1",
        b"\x80\x02X\x02\x00\x00\x00\xe2\x28",
        b"\x80\x02h\x07",
    ],
)
def test_a_file_that_is_no_checkpoint_is_refused(tmp_path, content):
    (tmp_path / "w.pth").write_bytes(content)
    with refused("the weights file", "no checkpoint that can be read safely"):
        load_classifier("mobilenet_v2", str(tmp_path / "w.pth"))


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    with refused("cannot read the weights file", "w.pth: no such file", "DEFAULT or none"):
        load_classifier("mobilenet_v2", str(tmp_path / "w.pth"))
    with refused("cannot read the weights file", str(tmp_path), "is a directory"):
        load_classifier("mobilenet_v2", str(tmp_path))


@pytest.mark.parametrize(
    "content", [[1, 2], {"a": 1}, {1: torch.zeros(1)}, {"state_dict": [3]}, torch.zeros(3)]
)
def test_a_checkpoint_without_a_state_dict_is_refused(save, content):
    with refused("holds no state dict", "torch.save(model.state_dict(), path)"):
        load_classifier("mobilenet_v2", save(content))


def test_an_empty_state_dict_is_refused(save):
    with refused("do not fit squeezenet1_1: features.0.weight is missing", "and 49 more"):
        load_classifier("squeezenet1_1", save({}))


def test_weights_of_another_model_are_refused_with_the_first_keys_that_do_not_fit():
    with refused("do not fit resnet18: conv1.weight is missing;", "more", "--model-name"):
        load_classifier("resnet18", str(mobilenet()))


@pytest.mark.parametrize("change", [{"extra.weight": torch.zeros(1)}, {"classifier.1.weight": 0.0}])
def test_a_key_too_much_or_a_scalar_for_a_matrix_is_refused(save, small, change):
    changed = {key: torch.as_tensor(value) for key, value in change.items()}
    with refused("do not fit squeezenet1_1", *change):
        load_classifier("squeezenet1_1", save({**small, **changed}))


def test_a_tensor_of_another_shape_is_refused(save, small):
    key = next(iter(small))
    with refused(f"{key} is [2, 2], the model has [64, 3, 3, 3]"):
        load_classifier("squeezenet1_1", save({**small, key: torch.zeros(2, 2)}))
