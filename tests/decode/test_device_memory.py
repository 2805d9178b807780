"""Memory on a device: of any content, and its errors say what to do."""

import pytest
import torch

from decode.gpus import needs_gpu, needs_no_gpu
from forked import in_a_fork
from headrace.decode.device_memory import device_memory
from headrace.errors import BackendError
from headrace.runtime import forks

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def test_it_is_bytes_of_the_shape_on_the_device():
    found = device_memory((2, 3, 4, 3), "cpu")
    assert (found.shape, found.dtype, found.device.type) == ((2, 3, 4, 3), torch.uint8, "cpu")


@needs_no_gpu
def test_a_device_that_is_not_here_is_named():
    with pytest.raises(BackendError, match=r"\[2, 3\] were to lie on cuda:0, .* keeps_on_device"):
        device_memory((2, 3), "cuda:0")


def test_a_process_that_was_forked_is_told_before_cuda_is_touched(monkeypatch):
    monkeypatch.setattr(forks, "_torch_has_cuda", lambda: True)

    def child():
        with pytest.raises(BackendError, match=r"cuda:0 in a process that was forked from one"):
            device_memory((2, 3), "cuda:0")
        return device_memory((2, 3), "cpu").shape == (2, 3)

    assert in_a_fork(child)


@needs_gpu
def test_a_gpu_without_memory_left_is_named():
    with pytest.raises(BackendError, match=r"on cuda:0, .* give a smaller memory_budget"):
        device_memory((1 << 50,), "cuda:0")
