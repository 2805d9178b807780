"""State of custom models in cache keys, beside their weights."""

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
from headrace.extraction.features.load_feature_model import measure_signature
from headrace.extraction.features.model_spec import SampleSpec
from headrace.extraction.features.own_state import imported_code, own_state


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

    def __init__(self, value=None):
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.value = value
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
def test_the_state_depends_on_the_value_of_an_attribute(name):
    first, second = PAIRS[name]
    state = own_state(Net(first))
    assert state == own_state(Net(first))
    assert state.unstable == ()
    assert state.differences(own_state(Net(second)).attributes) == ["value"]


def test_equal_objects_give_equal_states_and_cycles_are_supported():
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


def test_submodule_attributes_hooks_classes_and_buffers_are_in_the_state(monkeypatch):
    assert changed(lambda model: model.eval()) == changed(lambda model: None) == []
    assert changed(lambda model: setattr(model.inner, "note", 3)) == ["inner"]
    assert changed(lambda model: model.register_buffer("b", torch.ones(1), persistent=False))
    assert changed(lambda model: model.register_forward_hook(times(2)))
    before = own_state(Net(1))
    monkeypatch.setattr(Net, "factor", 2)
    assert own_state(Net(1)).differences(before.attributes) == ["class"]


def test_a_closure_of_a_class_is_in_the_state():
    def build(k):
        class Local(nn.Module):
            def forward(self, x):
                return x * k

        return Local()

    assert own_state(build(2)).differences(own_state(build(3)).attributes) == ["class"]
    assert own_state(build(2)) == own_state(build(2))


def extractor(k):
    """Return a feature extractor of torchvision, whose graph is a chain of hundreds of nodes."""
    net = nn.Sequential(*(nn.Identity() for _ in range(400)))
    net.append(nn.Threshold(k, 0.0))
    return create_feature_extractor(net, ["400"])


def test_a_feature_extractor_is_stable_and_its_graph_is_in_the_state():
    assert own_state(extractor(1)).unstable == ()
    assert own_state(extractor(1)) == own_state(extractor(1)) != own_state(extractor(2))
    first, other = (symbolic_trace(Scaled(k)) for k in (2, 3))
    assert "_graph" in own_state(first).differences(own_state(other).attributes)


def chain(length):
    return None if length == 0 else [chain(length - 1)]


def looping_set():
    child = Plain(None)
    child.value = {child}
    return child


@pytest.mark.parametrize("view", [torch.Tensor.conj, torch.Tensor._neg_view])
def test_tensors_are_compared_by_value(view):
    tensor = view(torch.ones(2, dtype=torch.complex64))
    assert own_state(Net(tensor)) == own_state(Net(tensor.clone()))
    assert own_state(Net(tensor)) != own_state(Net(tensor + 1))


DEEP = "objects that are nested too deeply"
UNSTABLE = [
    (threading.Lock(), "value (lock)"),
    (Plain(threading.Lock()), "value['value'] (lock)"),
    (times(threading.Lock()), "value: k (lock)"),
    ({"a": (n for n in ())}, "value['a'] (generator)"),
    (chain(800), DEEP),
    (looping_set(), DEEP),
]


@pytest.mark.parametrize(("value", "name"), UNSTABLE)
def test_unstable_attributes_are_listed(value, name):
    assert own_state(Net(value)).unstable == (name,)


NO_VERSION = (
    "extraction.features.own:with_a_lock has attributes that cannot be compared between runs, "
    "lock (lock), and has no attribute version; add one, a text that you change whenever its "
    "results change"
)
UNCACHED = {"with_a_lock": NO_VERSION, "with_a_lock_and_version": None, "Corners": None}


@pytest.mark.parametrize("build", UNCACHED)
def test_a_module_is_cached_if_it_is_stable_or_has_a_version(build):
    assert measure_signature(own(build), SampleSpec(), CPU)[0].uncached == UNCACHED[build]


def test_imported_project_files_and_their_plain_globals_are_digested(tmp_path, monkeypatch):
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
