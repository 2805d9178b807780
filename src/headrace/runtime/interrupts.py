"""Ctrl-C that waits: what is begun in a block is done before it is heard."""

import signal
from collections.abc import Generator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType


@contextmanager
def held_interrupts() -> Generator[None, None, None]:
    """Hold a Ctrl-C back until the block is left, where it is then raised as ever.

        with held_interrupts():
            self._running[name] = start()  # either not begun, or known

    Python raises it between any two instructions: a process that was started a moment ago would be
    nobody's. For short blocks; in other threads than the main one, where it is never raised, and
    where somebody has Python do nothing about it, this does nothing.
    """
    handler = signal.getsignal(signal.SIGINT)
    if current_thread() is not main_thread() or not callable(handler):
        yield
        return
    heard: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: heard.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if heard:
            handler(*heard[-1])
