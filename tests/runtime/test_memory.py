"""Memory of batches is used again when nobody has the batch any more, and not before."""

import gc

import numpy as np
import torch

from headrace.runtime.memory import BatchBuffers


def _address(array):
    return array.__array_interface__["data"][0]


def test_memory_comes_back_when_the_last_view_is_gone():
    buffers = BatchBuffers(2)
    batch = buffers.take((4, 3, 3))
    address = _address(batch)
    row = batch[2]
    tensor = torch.from_numpy(batch).movedim(-1, -2)[1:]
    del batch
    assert _address(buffers.take((4, 3, 3))) != address
    del tensor
    gc.collect()
    assert _address(buffers.take((4, 3, 3))) != address
    del row
    assert _address(buffers.take((4, 3, 3))) == address


def test_a_tensor_keeps_its_pixels():
    buffers = BatchBuffers(2)
    kept = []
    for value in range(6):
        batch = buffers.take((2, 1000))
        batch[...] = value
        kept.append(torch.from_numpy(batch).movedim(0, -1))
        del batch
    assert [int(each.unique()) for each in kept] == list(range(6))


def test_a_smaller_batch_fits_and_a_larger_one_has_memory_of_its_own():
    buffers = BatchBuffers(2)
    address = _address(buffers.take((4, 4)))
    small = buffers.take((3, 4))
    assert _address(small) == address
    assert small.shape == (3, 4)
    del small
    large = buffers.take((400, 400))
    large[...] = 7
    assert large.sum() == 7 * 400 * 400


def test_no_more_is_kept_than_asked_for():
    buffers = BatchBuffers(2)
    first, second, third = (buffers.take((8,)) for _ in range(3))
    addresses = {_address(second), _address(third)}
    del first  # two are in use: there is memory enough
    assert len(buffers._free) == 0
    del second, third
    assert {_address(each) for each in (buffers.take((8,)), buffers.take((8,)))} == addresses


def test_what_comes_back_after_the_end_is_let_go():
    buffers = BatchBuffers(2)
    batch = buffers.take((8,))
    buffers.close()
    batch[...] = 1
    assert np.array_equal(batch, np.ones(8))
    del batch
    assert len(buffers._free) == 0
