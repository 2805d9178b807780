import threading
import weakref

import pytest

from headrace.runtime.threads import ThreadGroup, iterating
from runtime.in_time import TIMEOUT_SECONDS, happens, in_time, run_script


def test_no_thread_outlives_the_block():
    stop = threading.Event()
    with ThreadGroup(stop.set) as threads:
        for worker in range(3):
            threads.start(f"work-{worker}", lambda: happens(stop))
        names = {thread.name for thread in threading.enumerate()}
        assert {"headrace-work-0", "headrace-work-1", "headrace-work-2"} <= names
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("headrace")]


def test_an_exception_in_the_block_ends_the_threads_and_goes_on():
    stop = threading.Event()

    def fail():
        with ThreadGroup(stop.set) as threads:
            threads.start("work", lambda: happens(stop))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        in_time(fail)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("headrace")]


def test_a_group_that_ended_is_not_kept():
    stop = threading.Event()
    with ThreadGroup(stop.set) as threads:
        threads.start("work", lambda: happens(stop))
    alive = weakref.ref(threads)
    del threads
    assert alive() is None


def test_one_of_the_threads_may_close_the_group():
    """As the garbage collector does, in whatever thread it runs; then nobody is waited for."""
    stop, closed = threading.Event(), threading.Event()
    with ThreadGroup(stop.set) as threads:

        def work():
            threads.close()
            closed.set()

        threads.start("waits", lambda: happens(closed))
        threads.start("closes", work)
        happens(closed)
    assert stop.is_set()


def test_a_block_that_nobody_leaves_does_not_keep_the_program_from_ending():
    script = f"""
import threading
from headrace.runtime.threads import ThreadGroup
stop = threading.Event()
def work():
    stop.wait({TIMEOUT_SECONDS})
    print("told to stop" if stop.is_set() else "forgotten", flush=True)
threads = ThreadGroup(stop.set).__enter__()
threads.start("work", work)
"""
    done = run_script(script)
    assert (done.returncode, done.stdout, done.stderr) == (0, "told to stop\n", "")


def test_iterating_closes_a_generator_where_it_ran():
    closed_in = []

    def numbers():
        try:
            yield from range(10)
        finally:
            closed_in.append(threading.current_thread())

    def take_one():
        with iterating(numbers()) as values:
            return next(values), threading.current_thread()

    value, thread = in_time(take_one)
    assert value == 0
    assert closed_in == [thread]


def test_iterating_raises_what_iter_raises_with_the_first_value():
    with iterating(5) as values, pytest.raises(TypeError, match="not iterable"):
        next(values)
