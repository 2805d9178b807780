"""Taking a batch to its device, with the bytes counted."""

import numpy as np
import pytest
import torch

from decode.gpus import needs_gpu
from headrace.models.pinned import PinnedCopy
from headrace.models.transfer import copy_for, copy_to, transfer
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


def test_on_the_cpu_there_is_nothing_to_pin():
    assert copy_for("cpu") is copy_to
    batch = torch.rand(2, 3)
    assert PinnedCopy()(batch, "cpu") is batch


def test_a_copy_beside_the_model_is_made_on_the_first_batch_only():
    """So that it can be described where there is no GPU."""
    assert isinstance(copy_for("cuda"), PinnedCopy)


@needs_gpu
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_batch_after_batch_comes_whole_while_the_one_before_is_worked_on(layout):
    copy, doubled, batches = PinnedCopy(), [], []
    for k in range(50):
        batches.append(torch.full((4, 3, 64, 64), float(k)).contiguous(memory_format=layout))
        moved = transfer(batches[-1], "cuda", copy=copy)
        assert moved.bytes_copied == 4 * 3 * 64 * 64 * 4
        torch.cuda._sleep(1_000_000)  # the model, on the default stream
        doubled.append(moved.tensor * 2)
        del moved
    for out, batch in zip(doubled, batches, strict=True):
        assert torch.equal(out.cpu(), 2 * batch)


@needs_gpu
def test_a_copy_does_not_wait_for_the_model():
    copy = PinnedCopy()
    copy(torch.ones(8), "cuda")  # what is made once is made
    done = torch.cuda.Event()
    torch.cuda._sleep(2_000_000_000)  # cycles: some second
    done.record()
    moved = copy(torch.ones(8), "cuda")
    assert not done.query(), "the model is still at work"
    assert moved.sum().item() == 8
