"""Loading a classifier: the weights that were asked for, or an error that says why not."""

import pytest
import torch
from torchvision.models import mobilenet_v2

from headrace.errors import BackendError, ConfigError
from headrace.models.load import load_classifier
from weights import mobilenet


@pytest.fixture(scope="module")
def small():
    """Return the state dict of a small model with 7 classes."""
    return load_classifier("squeezenet1_1", "none").module.state_dict()


def test_real_weights_come_with_their_labels_and_their_own_preset():
    model = load_classifier("mobilenet_v2", str(mobilenet()))
    assert (len(model.labels), model.label(281)) == (1000, "tabby")
    assert (model.input.resize, model.input.crop) == (256, 224)
    assert not model.module.training
    assert model.origin == str(mobilenet())


def test_random_weights_are_the_same_each_time_and_have_no_labels():
    state = torch.random.get_rng_state()
    one, two = (load_classifier("squeezenet1_1", "none") for _ in range(2))
    assert torch.equal(next(one.module.parameters()), next(two.module.parameters()))
    assert (one.labels, one.label(3), one.origin) == (None, "class 3", "random, seed 0")
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("wrap", [None, "state_dict", "model"])
@pytest.mark.parametrize("prefix", ["", "module."])
def test_a_checkpoint_may_be_wrapped_and_prefixed(tmp_path, small, wrap, prefix):
    state = {prefix + key: value for key, value in small.items()}
    torch.save({wrap: state} if wrap else state, tmp_path / "w.pth")
    model = load_classifier("squeezenet1_1", str(tmp_path / "w.pth"))
    assert all(torch.equal(model.module.state_dict()[key], small[key]) for key in small)


def test_a_head_with_another_number_of_classes_is_taken_over_without_labels(tmp_path):
    torch.save(mobilenet_v2(num_classes=7).state_dict(), tmp_path / "w.pth")
    model = load_classifier("mobilenet_v2", str(tmp_path / "w.pth"))
    assert model.module(torch.zeros(1, 3, 64, 64)).shape == (1, 7)
    assert model.labels is None


def test_an_unknown_model_is_refused_with_close_names():
    with pytest.raises(ConfigError, match=r"no classification model 'resnet5O'; did you mean res"):
        load_classifier("resnet5O", "none")


class Hostile:
    """Writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_a_checkpoint_that_would_run_code_is_refused_and_runs_nothing(tmp_path):
    torch.save({"a": Hostile(tmp_path / "ran")}, tmp_path / "w.pth")
    with pytest.raises(ConfigError, match="no checkpoint that can be read safely"):
        load_classifier("mobilenet_v2", str(tmp_path / "w.pth"))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read the weights file .*: no such file or directory"),
        (b"", "no checkpoint that can be read safely"),
        (b"not a checkpoint", "no checkpoint that can be read safely"),
    ],
)
def test_a_file_that_is_no_checkpoint_is_refused(tmp_path, content, message):
    path = tmp_path / "w.pth"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        load_classifier("mobilenet_v2", str(path))


def test_a_checkpoint_without_a_state_dict_is_refused(tmp_path):
    torch.save([1, 2], tmp_path / "w.pth")
    with pytest.raises(ConfigError, match="holds no state dict"):
        load_classifier("mobilenet_v2", str(tmp_path / "w.pth"))


def test_weights_of_another_model_are_refused_with_the_first_keys_that_do_not_fit():
    with pytest.raises(
        ConfigError, match=r"do not fit resnet18: conv1\.weight is missing; .* more"
    ):
        load_classifier("resnet18", str(mobilenet()))


def test_a_tensor_of_another_shape_is_refused(tmp_path, small):
    key = next(iter(small))
    torch.save({**small, key: torch.zeros(2, 2)}, tmp_path / "w.pth")
    with pytest.raises(ConfigError, match=r"is \[2, 2\], the model has \[64, 3, 3, 3\]"):
        load_classifier("squeezenet1_1", str(tmp_path / "w.pth"))


def test_weights_that_cannot_be_fetched_are_an_error_that_says_what_is_possible(tmp_path):
    before = torch.hub.get_dir()
    torch.hub.set_dir(str(tmp_path))
    try:
        with pytest.raises(ConfigError, match=r"could not be fetched .* --weights none"):
            load_classifier("shufflenet_v2_x2_0", "DEFAULT")
    finally:
        torch.hub.set_dir(before)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(BackendError, match="PyTorch sees no CUDA device"):
        load_classifier("mobilenet_v2", "none", "cuda")
