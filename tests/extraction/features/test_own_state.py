"""What enters the key of a model of one's own beside its weights, and what cannot."""

import importlib
import re
import threading
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.fx import symbolic_trace
from torchvision import transforms
from torchvision.models.feature_extraction import create_feature_extractor

from extraction.features.running import CPU, own
from headrace.extraction.features.model_spec import Sampling
from headrace.extraction.features.own_state import imported_code, own_state
from headrace.extraction.features.signature_probe import measure_signature


class Colour(Enum):
    RED = 1
    BLUE = 2


@dataclass
class Window:
    size: int


class Plain:
    def __init__(self, value):
        self.value = value


class Net(nn.Module):
    factor = 1

    def __init__(self, held=None):
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.held = held
        with torch.no_grad():
            self.inner.weight.fill_(1)
            self.inner.bias.fill_(0)


class Scaled(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k

    def forward(self, x):
        return x * self.k


def double(x):
    return x * 2


def halve(x):
    return x / 2


def times(k):
    return lambda x: x * k


def linear(fill):
    layer = nn.Linear(1, 1)
    nn.init.constant_(layer.weight, fill)
    nn.init.constant_(layer.bias, 0)
    return layer


PAIRS = {
    **{"number": (2, 3), "float": (2.0, 2), "text": ("a", "b"), "bytes": (b"a", b"b")},
    **{"truth": (True, False), "nothing": (None, 0)},
    "enumeration": (Colour.RED, Colour.BLUE),
    "tuple": ((1, 2), (2, 1)),
    "list": ([1, [2]], [1, [3]]),
    "mapping": ({"a": 1}, {"a": 2}),
    "set": ({"a", "b"}, {"a", "c"}),
    "dtype": (torch.float32, torch.float16),
    "device": (torch.device("cpu"), torch.device("cuda")),
    "path": (Path("a"), Path("b")),
    "function": (double, halve),
    "partial": (partial(double, x=1), partial(double, x=2)),
    "class": (Plain, Window),
    "dataclass": (Window(1), Window(2)),
    "object": (Plain(1), Plain([1])),
    "closure": (times(1), times(2)),
    "lambda": (lambda x: x + 1, lambda x: x + 2),
    "tensor": (torch.ones(2), torch.zeros(2)),
    "array": (np.ones(2), np.ones(2, np.float32)),
    "numpy number": (np.float32(1), np.float32(2)),
    "pattern": (re.compile("a"), re.compile("b")),
    "transform": (
        transforms.Compose([transforms.CenterCrop(8)]),
        transforms.Compose([transforms.CenterCrop(9)]),
    ),
    "module in a list": ([linear(1.0)], [linear(2.0)]),
    "bound method": (Plain(1).__init__, Plain(2).__init__),
}


@pytest.mark.parametrize("name", PAIRS)
def test_an_attribute_changes_the_state_by_its_value_alone(name):
    first, second = PAIRS[name]
    state = own_state(Net(first))
    assert state == own_state(Net(first))
    assert state.unstable == ()
    assert state.differences(own_state(Net(second)).attributes) == ["held"]


def test_equal_values_that_are_other_objects_give_one_state_and_loops_an_end():
    first, second = (Net({"a": [Plain((1, 2))], "b": torch.ones(3)}) for _ in range(2))
    assert own_state(first) == own_state(second)
    loop = [1]
    loop.append(loop)
    model = Net(loop)
    model.itself = [model]
    assert own_state(model).unstable == ()


def changed(change):
    model = Net(1)
    change(model)
    return own_state(model).differences(own_state(Net(1)).attributes)


def test_attributes_of_submodules_hooks_classes_and_lost_buffers_count(monkeypatch):
    assert changed(lambda model: model.eval()) == changed(lambda model: None) == []
    assert changed(lambda model: setattr(model.inner, "note", 3)) == ["inner"]
    assert changed(lambda model: model.register_buffer("b", torch.ones(1), persistent=False))
    assert changed(lambda model: model.register_forward_hook(times(2)))
    before = own_state(Net(1))
    monkeypatch.setattr(Net, "factor", 2)
    assert own_state(Net(1)).differences(before.attributes) == ["class"]


def test_a_class_that_closes_over_a_value_counts_with_it():
    def build(k):
        class Local(nn.Module):
            def forward(self, x):
                return x * k

        return Local()

    assert own_state(build(2)).differences(own_state(build(3)).attributes) == ["class"]
    assert own_state(build(2)) == own_state(build(2))


def cut(k):
    """A model as torchvision cuts it: its graph is a chain of several hundred nodes."""
    net = nn.Sequential(*(nn.Identity() for _ in range(400)))
    net.append(nn.Threshold(k, 0.0))
    return create_feature_extractor(net, ["400"])


def test_a_model_that_torchvision_cut_has_a_stable_form_and_its_graph_counts():
    assert own_state(cut(1)).unstable == ()
    assert own_state(cut(1)) == own_state(cut(1)) != own_state(cut(2))
    first, other = (symbolic_trace(Scaled(k)) for k in (2, 3))
    assert "_graph" in own_state(first).differences(own_state(other).attributes)


def chain(length):
    return None if length == 0 else [chain(length - 1)]


def looping_set():
    child = Plain(None)
    child.value = {child}
    return child


@pytest.mark.parametrize("view", [torch.Tensor.conj, torch.Tensor._neg_view])
def test_tensors_count_by_their_numbers_however_they_are_kept(view):
    kept = view(torch.ones(2, dtype=torch.complex64))
    assert own_state(Net(kept)) == own_state(Net(kept.clone()))
    assert own_state(Net(kept)) != own_state(Net(kept + 1))


DEEP = "objects that are nested too deeply"
UNSTABLE = [
    (threading.Lock(), "held (lock)"),
    (Plain(threading.Lock()), "held['value'] (lock)"),
    (times(threading.Lock()), "held: k (lock)"),
    ({"a": (n for n in ())}, "held['a'] (generator)"),
    (chain(800), DEEP),
    (looping_set(), DEEP),
]


@pytest.mark.parametrize(("held", "named"), UNSTABLE)
def test_what_has_no_stable_form_is_named(held, named):
    assert own_state(Net(held)).unstable == (named,)


NO_VERSION = (
    "extraction.features.own:with_a_lock has no attribute version, and what it keeps in "
    "lock (lock) cannot be compared between runs, so its results may be another model's; "
    "give it one, a text that you change when it changes"
)
UNCACHED = {"with_a_lock": NO_VERSION, "with_a_lock_and_version": None, "Corners": None}


@pytest.mark.parametrize("build", UNCACHED)
def test_a_module_is_cached_where_all_of_it_is_known_or_it_has_a_version(build):
    assert measure_signature(own(build), Sampling(), CPU)[0].uncached == UNCACHED[build]


def test_an_imported_file_of_the_project_counts_and_so_do_its_plain_values(tmp_path, monkeypatch):
    package = tmp_path / "projectcode"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "helper.py").write_text("import os\nK = os.environ.get('K')\nlock = object()\n")
    monkeypatch.syspath_prepend(tmp_path)
    helper = importlib.import_module("projectcode.helper")
    before = imported_code(())
    assert {"projectcode", __name__.partition(".")[0]} <= set(before)
    assert not {"torch", "numpy", "os", "headrace", "pytest"} & set(before)
    assert imported_code(()) == before
    helper.lock = object()
    assert imported_code(()) == before
    helper.K = "2"
    with_value = imported_code(())
    assert with_value["projectcode"] != before["projectcode"]
    (package / "helper.py").write_text("K = 1\n")
    assert imported_code(())["projectcode"] != with_value["projectcode"]
    assert "numpy" in imported_code({"numpy"})
