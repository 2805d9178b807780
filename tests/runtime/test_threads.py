"""No thread outlives its owner; a reader that cannot be woken blocks nothing."""

import threading
import weakref
from contextlib import nullcontext, suppress

import pytest

from headrace.errors import StageError
from headrace.runtime.imap import HangDetector, imap
from headrace.runtime.queue import BoundedQueue, Cancelled, Closed
from headrace.runtime.synchronization import ThreadGroup, closing_iterator
from headrace.runtime.waitable_source import ReaderThread, Waiter
from headrace.testing.fake_clock import FakeClock
from runtime.in_time import TIMEOUT_SECONDS, Call, happens, headrace_threads, printed


@pytest.mark.parametrize("error", [None, KeyboardInterrupt])
def test_no_thread_outlives_the_block(error):
    stop = threading.Event()
    with suppress(KeyboardInterrupt), ThreadGroup(stop.set) as threads:
        for worker in range(3):
            threads.start(f"work-{worker}", lambda: happens(stop))
        assert headrace_threads() == {f"headrace-work-{worker}" for worker in range(3)}
        if error:
            raise error
    assert not headrace_threads()


def test_an_ended_group_is_not_kept():
    stop = threading.Event()
    with ThreadGroup(stop.set) as threads:
        threads.start("work", lambda: happens(stop))
    alive = weakref.ref(threads)
    del threads
    assert alive() is None


def test_one_of_the_threads_may_close_the_group():
    """As the garbage collector may, in any thread; then no thread is waited for."""
    stop, closed = threading.Event(), threading.Event()
    with ThreadGroup(stop.set) as threads:

        def work():
            threads.close()
            closed.set()

        threads.start("waits", lambda: happens(closed))
        threads.start("closes", work)
        happens(closed)
    assert stop.is_set()


def test_a_block_that_is_never_left_does_not_block_the_exit():
    script = f"""
import threading
from headrace.runtime.synchronization import ThreadGroup
stop = threading.Event()
def work():
    stop.wait({TIMEOUT_SECONDS})
    print("told to stop" if stop.is_set() else "forgotten", flush=True)
threads = ThreadGroup(stop.set).__enter__()
threads.start("work", work)
"""
    assert printed(script) == "told to stop\n"


def test_exceptions_of_iter_are_raised_by_next():
    with closing_iterator(5) as values, pytest.raises(TypeError, match="not iterable"):
        next(values)


def dropped(value):
    return "dropped", value


def reader_of(read, waiter=None, keep=10, instead=dropped):
    return ReaderThread("test", read, waiter or Waiter(FakeClock()), keep=keep, instead=instead)


def taken(reader):
    found = []
    while True:
        try:
            found.append(reader.get())
        except Closed:
            return found


def test_a_reader_thread_returns_values_and_keeps_its_error():
    reader = reader_of(lambda _: (k for k in range(5)))
    assert (taken(reader), reader.error) == ([0, 1, 2, 3, 4], None)
    reader = reader_of(lambda _: (1 // k for k in (1, 0)))
    assert taken(reader) == [1]
    assert isinstance(reader.error, ZeroDivisionError)


@pytest.mark.parametrize(
    ("keep", "instead", "found"),
    [
        pytest.param(2, dropped, [*map(dropped, range(4)), 4, 5], id="the newest are kept"),
        pytest.param(1, lambda value: None, [*range(6)], id="what is small comes through"),
    ],
)
def test_a_reader_thread_never_waits_for_its_consumer(keep, instead, found):
    is_read = threading.Event()

    def read(_):
        yield from range(6)
        is_read.set()

    reader = reader_of(read, keep=keep, instead=instead)
    happens(is_read)
    assert taken(reader) == found


class Stuck:
    """Sources: one yields 1 on `goes_on`, the other pauses until the reader wakes it."""

    def __init__(self):
        self.goes_on, self.ended = threading.Event(), threading.Event()

    def by_itself(self, _):
        try:
            happens(self.goes_on)
            yield 1
        finally:
            self.ended.set()

    def by_the_waiter(self, waiter):
        try:
            waiter.pause(10_000)
            yield 1
        finally:
            self.ended.set()


def test_get_has_a_timeout():
    stuck = Stuck()
    reader = reader_of(stuck.by_itself)
    with pytest.raises(TimeoutError):
        reader.get(until_ns=1)
    stuck.goes_on.set()
    assert taken(reader) == [1]


def test_waking_the_waiter_ends_get_at_once():
    stuck, waiter = Stuck(), Waiter()
    reader = reader_of(stuck.by_itself, waiter)
    call = Call(reader.get)
    waiter.wake()
    with pytest.raises(Cancelled):
        call.result()
    reader.stop()
    stuck.goes_on.set()
    happens(stuck.ended)


def test_stop_ends_waits_of_the_thread():
    stuck = Stuck()
    reader_of(stuck.by_the_waiter, Waiter()).stop()
    happens(stuck.ended)


def test_hangs_are_detected_by_the_given_clock():
    clock = FakeClock()
    watch = HangDetector(0.001, str, clock)
    abandoned = []
    watch.abandon = abandoned.append
    watch.start("worker-1", "late.mp4")
    clock.advance(50)
    watch.start("worker-2", "new.mp4")
    clock.advance(0.0004)
    empty = BoundedQueue(1, "outputs")
    with pytest.raises(StageError, match=r"worker worker-1 has worked on late\.mp4 for 50 s"):
        next(watch.iterate(empty))
    assert abandoned == ["worker-1"]


def hanging_at(items, run, **options):
    """Run `imap` with a stall limit of 0.05 s."""
    options = {"workers": 2, "capacity": 4, **options}
    return imap(lambda: nullcontext(run), items, name="test", stall_seconds=0.05, **options)


def left_behind():
    return [thread for thread in threading.enumerate() if thread.name.startswith("headrace-test")]


@pytest.fixture
def release():
    """Yield an event for workers to hang on; it is set at the end of the test."""
    comes = threading.Event()
    yield comes
    left = left_behind()
    comes.set()
    for thread in left:
        thread.join()


def test_a_hanging_worker_is_named_and_abandoned(release):
    def run(item):
        if item == "hangs":
            release.wait()
        return [item]

    outputs = hanging_at(["good", "hangs", "later"], run, describe=str.upper)
    assert next(outputs) == "good"
    with pytest.raises(StageError, match=r"worker test-\d has worked on HANGS for 0 s") as caught:
        next(outputs)
    assert caught.value.item == "hangs"
    assert len(left_behind()) == 1


def test_other_stalled_workers_are_abandoned_too(release):
    both = threading.Barrier(2)

    def run(item):
        both.wait(TIMEOUT_SECONDS)
        release.wait()
        return [item]

    outputs = hanging_at(["one", "other"], run)
    with pytest.raises(StageError):
        next(outputs)
    assert len(left_behind()) == 2


def test_joining_a_hanging_worker_has_a_time_limit(release):
    hangs = threading.Event()

    def run(item):
        if item == "hangs":
            hangs.set()
            release.wait()
        return [item]

    outputs = hanging_at(["good", "hangs"], run, workers=1)
    assert next(outputs) == "good"
    happens(hangs)
    with pytest.warns(RuntimeWarning, match="headrace-test-0 hangs and is abandoned"):
        outputs.close()
