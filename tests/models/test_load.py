"""Loading a classifier: the weights that were asked for, or an error that says why not."""

import re
import urllib.request
from contextlib import contextmanager

import pytest
import torch
from torchvision import models

from headrace.errors import BackendError, ConfigError
from headrace.models.load import load_classifier
from weights import mobilenet


@pytest.fixture(scope="module")
def small():
    """Return the state dict of a small model."""
    return load_classifier("squeezenet1_1", "none").module.state_dict()


@pytest.fixture
def save(tmp_path):
    """Return a function: content -> path of a checkpoint that holds it."""

    def write(content: object, name: str = "w.pth") -> str:
        torch.save(content, tmp_path / name)
        return str(tmp_path / name)

    return write


@pytest.fixture
def hub(tmp_path):
    """Return torchvision's cache, moved to an empty folder."""
    before = torch.hub.get_dir()
    torch.hub.set_dir(str(tmp_path / "hub"))
    checkpoints = tmp_path / "hub" / "checkpoints"
    checkpoints.mkdir(parents=True)
    yield checkpoints
    torch.hub.set_dir(before)


@pytest.fixture
def no_network():
    """Send everything to a port where nobody listens."""
    proxy = urllib.request.ProxyHandler({"https": "http://127.0.0.1:9"})
    urllib.request.install_opener(urllib.request.build_opener(proxy))
    yield
    urllib.request.install_opener(None)


def shapes_of(name: str, **options: object) -> dict[str, torch.Tensor]:
    """Return a state dict of zeros that fits the model and takes no room on disk."""
    state = models.get_model(name, weights=None, **options).state_dict()
    return {key: value.new_zeros(()).expand(value.shape) for key, value in state.items()}


def scores(model) -> torch.Tensor:
    with torch.inference_mode():
        return model.module(torch.rand(1, 3, model.input.crop, model.input.crop))


@contextmanager
def refused(*parts: str):
    """Expect a ConfigError that says each of `parts`, in this order, in one line."""
    with pytest.raises(ConfigError, match=".*".join(re.escape(part) for part in parts)) as caught:
        yield
    assert "\n" not in str(caught.value)


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
@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod.", "module._orig_mod."])
def test_a_checkpoint_may_be_wrapped_and_prefixed(save, small, wrap, prefix):
    state = {prefix + key: value for key, value in small.items()}
    model = load_classifier("squeezenet1_1", save({wrap: state, "epoch": 3} if wrap else state))
    assert all(torch.equal(model.module.state_dict()[key], small[key]) for key in small)


def test_a_checkpoint_in_half_precision_gives_a_model_in_full_precision(save, small):
    half = {key: value.half() for key, value in small.items()}
    model = load_classifier("squeezenet1_1", save(half))
    assert all(value.dtype == torch.float32 for value in model.module.parameters())


@pytest.mark.parametrize(
    "name",
    ["squeezenet1_1", "shufflenet_v2_x0_5", "googlenet", "maxvit_t", "regnet_y_400mf"],
)
def test_a_head_with_another_number_of_classes_is_taken_over_without_labels(save, name):
    options = {"init_weights": False} if name == "googlenet" else {}
    state = shapes_of(name, num_classes=7, **options)
    model = load_classifier(name, save(dict(reversed(state.items()))))
    assert scores(model).shape == (1, 7)
    assert model.labels is None


def test_old_files_without_counts_of_batches_are_read(save):
    state = shapes_of("shufflenet_v2_x0_5")
    old = {key: value for key, value in state.items() if "num_batches_tracked" not in key}
    assert len(old) < len(state)
    assert scores(load_classifier("shufflenet_v2_x0_5", save(old))).shape == (1, 1000)


def test_the_names_in_torchvisions_own_files_of_densenets_are_known(save):
    state = shapes_of("densenet121")
    old = {re.sub(r"(denselayer\d+\.(?:norm|conv))", r"\1.", key): v for key, v in state.items()}
    assert "features.denseblock1.denselayer1.norm.1.weight" in old
    assert load_classifier("densenet121", save(old, "densenet121-a639ec97.pth")).labels


def test_weights_for_larger_pictures_get_a_model_for_them(save):
    path = save(shapes_of("vit_b_16", image_size=384), "vit_b_16_swag-9ac1b537.pth")
    model = load_classifier("vit_b_16", path)
    assert (model.input.crop, model.input.interpolation) == (384, "bicubic")
    assert model.module.image_size == 384


def test_a_model_that_normalises_its_input_again_does_so_as_with_torchvisions_weights():
    assert load_classifier("googlenet", "none").module.transform_input


def test_default_weights_come_from_the_cache_of_torchvision(hub, no_network):
    default = models.MobileNet_V2_Weights.DEFAULT
    (hub / default.url.rpartition("/")[2]).symlink_to(mobilenet())
    model = load_classifier("mobilenet_v2", "DEFAULT")
    assert model.origin == "torchvision MobileNet_V2_Weights.IMAGENET1K_V2"
    assert (model.input.resize, model.label(281)) == (232, "tabby")


def test_default_weights_that_cannot_be_fetched_are_an_error(hub, no_network, capsys):
    with refused("MobileNet_V2_Weights", "neither from the cache", str(hub.parent), "--weights"):
        load_classifier("mobilenet_v2", "DEFAULT")
    assert capsys.readouterr().out == "", "stdout is for results"
    assert list(hub.iterdir()) == []


def test_default_weights_that_are_damaged_in_the_cache_are_an_error(hub, no_network):
    (hub / models.MobileNet_V2_Weights.DEFAULT.url.rpartition("/")[2]).write_bytes(b"damaged")
    with refused("neither from the cache", str(hub.parent)):
        load_classifier("mobilenet_v2", "DEFAULT")


@pytest.mark.parametrize(
    ("name", "close"), [("resnet5O", "resnet50"), ("MobileNet_v2", "mobilenet_v2"), ("", "alexnet")]
)
def test_an_unknown_model_is_refused_with_close_names(name, close):
    with refused(f"no classification model {name!r}; did you mean", close):
        load_classifier(name, "none")


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


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(BackendError, match="PyTorch sees no CUDA device; use --device cpu"):
        load_classifier("mobilenet_v2", "none", "cuda")
