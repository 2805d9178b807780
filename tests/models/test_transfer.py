"""Taking a batch to its device, with the bytes counted."""

import numpy as np
import pytest
import torch

from decode.gpus import needs_gpu
from headrace.models.transfer import transfer
from headrace.testing.fake_clock import FakeClock


def test_on_the_cpu_nothing_is_copied():
    batch = torch.rand(2, 3, 4, 4)
    moved = transfer(batch, "cpu")
    assert moved.tensor is batch
    assert moved.bytes_copied == 0


def test_frames_in_an_array_are_taken_as_they_lie():
    frames = np.zeros((2, 4, 4, 3), np.uint8)
    moved = transfer(frames, "cpu")
    assert moved.tensor.data_ptr() == frames.ctypes.data
    assert moved.bytes_copied == 0


def test_how_it_is_copied_can_be_handed_in_and_be_slow():
    clock = FakeClock()

    def slow(tensor, device):
        clock.advance(0.5)
        assert device == "cpu"
        return tensor.clone()

    batch = torch.rand(2, 3, 4, 4)
    moved = transfer(batch, "cpu", copy=slow)
    assert torch.equal(moved.tensor, batch)
    assert moved.bytes_copied == 2 * 3 * 4 * 4 * 4
    assert clock.now_ns() == 500_000_000


@needs_gpu
@pytest.mark.parametrize(("dtype", "size"), [(torch.uint8, 1), (torch.float32, 4)])
def test_to_a_gpu_every_byte_is_copied_once(dtype, size):
    batch = torch.ones(2, 3, 4, 4, dtype=dtype)
    moved = transfer(batch, "cuda")
    assert moved.tensor.device.type == "cuda"
    assert moved.bytes_copied == 96 * size
    assert torch.equal(moved.tensor.cpu(), batch)
    assert transfer(moved.tensor, "cuda").bytes_copied == 0
