"""A model that memory has no room for is said to be too large, wherever its weights come from."""

import pytest
import torch
from torchvision import models

from headrace.errors import BackendError, ConfigError
from headrace.models.load import load_classifier

REFUSED = RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 bytes.")


def raising(error: BaseException):
    def fail(*given: object, **options: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize("error", [REFUSED, MemoryError()], ids=["PyTorch", "Python"])
@pytest.mark.parametrize("weights", ["none", "DEFAULT"])
def test_a_model_without_room_is_one_line(monkeypatch, error, weights):
    monkeypatch.setattr(models, "get_model", raising(error))
    with pytest.raises(BackendError, match=r"vgg16 does not fit into .* use a smaller") as caught:
        load_classifier("vgg16", weights)
    assert "\n" not in str(caught.value)


def test_a_checkpoint_without_room_is_not_called_unreadable(monkeypatch, tmp_path):
    monkeypatch.setattr(torch, "load", raising(REFUSED))
    with pytest.raises(BackendError, match="vgg16 does not fit into the memory"):
        load_classifier("vgg16", str(tmp_path / "weights.pt"))


def test_what_else_goes_wrong_is_called_what_it_is(monkeypatch):
    monkeypatch.setattr(models, "get_model", raising(RuntimeError("no such thing")))
    with pytest.raises(ConfigError, match="can be had neither from the cache"):
        load_classifier("vgg16", "DEFAULT")
