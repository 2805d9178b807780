"""Ctrl-C waits until a block is left, and does then what it ever does."""

import signal
from threading import Thread

import pytest

from headrace.runtime.interrupts import held_interrupts


def held(done, depth=1, error=None):
    with held_interrupts():
        if depth > 1:
            held(done, depth - 1, error)
        else:
            signal.raise_signal(signal.SIGINT)
        if error is not None:
            raise error
        done.append("the rest")


@pytest.mark.parametrize("depth", [1, 2])
def test_ctrl_c_is_heard_when_the_outermost_block_is_left(depth):
    done = []
    with pytest.raises(KeyboardInterrupt):
        held(done, depth)
    assert done == ["the rest"] * depth
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_of_the_block_stands_behind_the_interrupt():
    error = ValueError("of the block")
    with pytest.raises(KeyboardInterrupt) as caught:
        held([], error=error)
    assert caught.value.__context__ is error


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_what_python_does_not_handle_stays_as_it_is(handler):
    signal.signal(signal.SIGINT, handler)
    with held_interrupts():
        assert signal.getsignal(signal.SIGINT) is handler


def test_another_thread_holds_nothing():
    seen = []

    def look():
        with held_interrupts():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]
