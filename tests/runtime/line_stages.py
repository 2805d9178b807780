"""What the processes of the tests do; imports little, because each process imports it."""

import os
import signal
from contextlib import contextmanager

from headrace.errors import DecodeError


@contextmanager
def counting(_):
    """A source that writes each number into the memory, as often as it is ordered."""

    def work(order, waiter, memory):
        for number in range(order):
            waiter.until(0)
            memory()[:] = bytes([number]) * len(memory())
            yield number

    yield work


@contextmanager
def doubling(added):
    def work(memory, value):
        assert set(memory) == {value}, "the memory is that of this parcel"
        memory[:] = bytes([2 * value + added]) * len(memory)
        return 2 * value + added

    yield work


@contextmanager
def telling_pid(_):
    yield lambda memory, value: os.getpid()


@contextmanager
def failing(kind):
    def work(memory, value):
        if value == 2:
            raise (
                DecodeError("frame 2 is damaged", source="a.mp4", pts=7)
                if kind == "media"
                else ValueError("no 2")
            )
        return value

    yield work


@contextmanager
def unmakable(_):
    raise ValueError("no model")
    yield


@contextmanager
def dying(_):
    def work(memory, value):
        os.kill(os.getpid(), signal.SIGKILL)

    yield work


@contextmanager
def exiting(code):
    def work(memory, value):
        os._exit(code)

    yield work
