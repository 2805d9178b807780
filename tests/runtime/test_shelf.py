"""What threads and processes share or use again: shelves, memory of batches, locks."""

import gc
import os
import pickle
import threading

import numpy as np
import torch

from headrace.runtime.lock import file_lock
from headrace.runtime.memory import BatchBuffers
from headrace.runtime.shelf import Shelf
from headrace.runtime.thread_lock import ThreadLock


class Thing:
    def __init__(self):
        self.is_closed = False

    def close(self):
        self.is_closed = True


def test_what_was_put_is_taken_once():
    shelf, thing = Shelf(2), Thing()
    shelf.put("a", thing)
    assert shelf.take("b") is None
    assert shelf.take("a") is thing
    assert shelf.take("a") is None
    assert not thing.is_closed


def test_what_has_lain_longest_is_closed_when_there_are_too_many():
    shelf, things = Shelf(2), [Thing() for _ in range(3)]
    shelf.put(0, things[0])
    shelf.put(1, things[1])
    shelf.put(0, shelf.take(0))
    shelf.put(2, things[2])
    assert [thing.is_closed for thing in things] == [False, True, False]
    assert len(shelf) == 2


def test_a_second_thing_under_a_key_closes_the_first():
    shelf, first, second = Shelf(2), Thing(), Thing()
    shelf.put(0, first)
    shelf.put(0, second)
    assert (first.is_closed, second.is_closed) == (True, False)
    assert shelf.take(0) is second


def test_closing_closes_what_lies_there_and_the_shelf_goes_on():
    shelf, thing = Shelf(2), Thing()
    shelf.put(0, thing)
    shelf.close()
    assert thing.is_closed
    assert shelf.take(0) is None


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


def test_one_holds_a_lock_at_a_time(tmp_path):
    path = tmp_path / "lock"
    with file_lock(path) as first, file_lock(path) as second:
        assert (first, second) == (True, False)
    with file_lock(path) as again:
        assert again


def test_those_that_share_a_lock_keep_out_those_that_do_not(tmp_path):
    path = tmp_path / "lock"
    with file_lock(path, is_shared=True) as first, file_lock(path, is_shared=True) as second:
        assert (first, second) == (True, True)
        with file_lock(path) as alone:
            assert not alone
    with file_lock(path, waits=True) as alone:
        assert alone


def test_one_thread_at_a_time_holds_it():
    lock, inside, most = ThreadLock(), [], []

    def work() -> None:
        for _ in range(200):
            with lock, lock:
                inside.append(None)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 600


def test_it_arrives_free_in_another_process():
    lock = ThreadLock()
    with lock:
        copy = pickle.loads(pickle.dumps(lock))  # noqa: S301
    with copy:
        pass


def test_it_is_free_in_a_process_that_was_forked_while_another_thread_held_it():
    lock, holds, ends = ThreadLock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            holds.set()
            ends.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    holds.wait()
    child = os.fork()
    if child == 0:
        with lock:
            os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    ends.set()
    thread.join()
