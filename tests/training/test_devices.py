"""Where batches may go is checked before anything is decoded."""

import pytest
import torch

from headrace.errors import BackendError, ConfigError
from headrace.training.devices import check_device

WITHOUT_CUDA = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")


@pytest.mark.parametrize("device", [None, "cpu", torch.device("cpu"), "cpu:0", "meta"], ids=str)
def test_a_device_that_is_here_is_taken(device):
    check_device(device, pin_memory=False)


@pytest.mark.parametrize("device", ["", "gpu", "cuda:x", 1.5], ids=str)
def test_a_name_that_means_no_device_is_refused(device):
    with pytest.raises(ConfigError, match=f"'cuda' or 'cuda:1', got {device!r}"):
        check_device(device, pin_memory=False)


def test_a_gpu_that_is_not_here_is_refused():
    with pytest.raises(
        BackendError, match=r"'cuda:99' was asked for, torch .* finds .* on the CPU"
    ):
        check_device("cuda:99", pin_memory=False)
    assert not torch.cuda.is_initialized()


@WITHOUT_CUDA
@pytest.mark.parametrize("device", ["cuda", torch.device("cuda")], ids=repr)
def test_a_gpu_where_there_is_none_is_refused(device):
    with pytest.raises(BackendError, match=r"'cuda' was asked for, torch .* finds no CUDA device"):
        check_device(device, pin_memory=False)


@pytest.mark.parametrize("device", ["vulkan", "hpu"])
def test_a_device_that_this_torch_cannot_use_is_refused(device):
    with pytest.raises(BackendError, match=rf"'{device}' was asked for, torch .* cannot use it"):
        check_device(device, pin_memory=False)


@WITHOUT_CUDA
def test_memory_cannot_be_locked_for_a_gpu_that_is_not_there():
    with pytest.raises(BackendError, match=r"pin_memory=True was asked for, .* leave it out"):
        check_device(None, pin_memory=True)
