"""A lock that is free where its owner arrives."""

import os
import pickle
import threading

from headrace.runtime.thread_lock import ThreadLock


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
