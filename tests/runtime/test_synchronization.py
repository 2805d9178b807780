"""What threads and processes share or reuse: pools, batch memory, locks."""

import gc
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from forked import in_a_fork
from headrace.runtime.buffer_pool import BatchBufferPool
from headrace.runtime.fork_safety import ForkSafeLock
from headrace.runtime.posix import file_lock
from headrace.runtime.synchronization import ResourcePool
from runtime.in_time import Call


@pytest.fixture
def pool():
    """A pool for two resources, and the resources it has closed."""
    closed = []

    def thing(name):
        return SimpleNamespace(close=lambda: closed.append(name))

    return ResourcePool(2), thing, closed


def test_a_released_resource_is_acquired_once_and_replaced_by_the_next(pool):
    pool, thing, closed = pool
    second = thing("second")
    pool.release("a", thing("first"))
    pool.release("a", second)
    assert [pool.acquire(key) for key in "baa"] == [None, second, None]
    assert closed == ["first"]


def test_the_least_recently_used_is_closed_beyond_the_capacity_and_all_at_the_end(pool):
    pool, thing, closed = pool
    for key in (0, 1):
        pool.release(key, thing(key))
    pool.release(0, pool.acquire(0))
    pool.release(2, thing(2))
    assert (len(pool), closed) == (2, [1])
    pool.close()
    assert closed == [1, 0, 2]
    assert pool.acquire(0) is None


def _address(array):
    return array.__array_interface__["data"][0]


def test_memory_returns_to_the_pool_after_the_last_view():
    buffers = BatchBufferPool(2)
    batch = buffers.acquire((4, 3, 3))
    address = _address(batch)
    row = batch[2]
    tensor = torch.from_numpy(batch).movedim(-1, -2)[1:]
    del batch
    assert _address(buffers.acquire((4, 3, 3))) != address
    del tensor
    gc.collect()
    assert _address(buffers.acquire((4, 3, 3))) != address
    del row
    assert _address(buffers.acquire((4, 3, 3))) == address


def test_a_tensor_keeps_its_pixels():
    buffers = BatchBufferPool(2)
    kept = []
    for value in range(6):
        batch = buffers.acquire((2, 1000))
        batch[...] = value
        kept.append(torch.from_numpy(batch).movedim(0, -1))
        del batch
    assert [int(each.unique()) for each in kept] == list(range(6))


def test_a_smaller_batch_reuses_memory_and_a_larger_one_does_not():
    buffers = BatchBufferPool(2)
    address = _address(buffers.acquire((4, 4)))
    small = buffers.acquire((3, 4))
    assert _address(small) == address
    assert small.shape == (3, 4)
    del small
    large = buffers.acquire((400, 400))
    large[...] = 7
    assert large.sum() == 7 * 400 * 400


def test_the_pool_keeps_at_most_max_batches():
    buffers = BatchBufferPool(2)
    first, second, third = (buffers.acquire((8,)) for _ in range(3))
    addresses = {_address(second), _address(third)}
    del first  # two are in use: this is enough memory
    assert len(buffers._free) == 0
    del second, third
    assert {_address(each) for each in (buffers.acquire((8,)), buffers.acquire((8,)))} == addresses


def test_memory_released_after_close_is_unmapped():
    buffers = BatchBufferPool(2)
    batch = buffers.acquire((8,))
    buffers.close()
    batch[...] = 1
    assert np.array_equal(batch, np.ones(8))
    del batch
    assert len(buffers._free) == 0


@pytest.mark.parametrize("how", [{}, {"timeout_seconds": 0.01}], ids=str)
def test_a_file_lock_is_exclusive_with_a_timeout(tmp_path, how):
    path = tmp_path / "lock"
    with file_lock(path) as first, file_lock(path, **how) as second:
        assert (first, second) == (True, False)
    with file_lock(path, **how) as again:
        assert again


def test_shared_file_locks_exclude_exclusive_ones(tmp_path):
    path = tmp_path / "lock"
    with file_lock(path, is_shared=True) as first, file_lock(path, is_shared=True) as second:
        assert (first, second) == (True, True)
        with file_lock(path) as alone:
            assert not alone
    with file_lock(path, waits=True) as alone:
        assert alone


def test_one_thread_at_a_time_holds_the_lock():
    lock, inside, most = ForkSafeLock(), [], []

    def work(_):
        with lock, lock:
            inside.append(None)
            most.append(len(inside))
            inside.pop()

    begin = threading.Barrier(3).wait
    with ThreadPoolExecutor(3, initializer=begin) as threads:
        list(threads.map(work, range(600)))
    assert most == [1] * 600


def test_an_unpickled_lock_is_free():
    lock = ForkSafeLock()
    with lock:
        copy = pickle.loads(pickle.dumps(lock))  # noqa: S301
    with copy:
        pass


def test_a_held_lock_is_free_after_a_fork():
    lock, holds, ends = ForkSafeLock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            holds.set()
            ends.wait()

    def is_free() -> bool:
        with lock:
            return True

    holding = Call(hold)
    holds.wait()
    assert in_a_fork(is_free)
    ends.set()
    holding.result()
