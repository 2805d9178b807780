"""Checkpoints, and a temporary torchvision cache, for the tests of models."""

import urllib.request

import pytest
import torch

from headrace.models.load import load_classifier


@pytest.fixture(scope="module")
def small():
    """Return the state dict of a small model."""
    return load_classifier("squeezenet1_1", "none").module.state_dict()


@pytest.fixture
def save(tmp_path):
    """Return a function: content -> path of its checkpoint."""

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
    """Send all requests to a closed port."""
    proxy = urllib.request.ProxyHandler({"https": "http://127.0.0.1:9"})
    urllib.request.install_opener(urllib.request.build_opener(proxy))
    yield
    urllib.request.install_opener(None)
