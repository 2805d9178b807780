"""Functions for the children of tests; few imports, as each child imports this."""

import ctypes
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from headrace.errors import DecodeError
from headrace.runtime.supervisor import iter_messages
from headrace.runtime.worker_pool import arm_watchdog, disarm_watchdog, iter_claimed_chunks


def squared(number, send):
    send({"pid": os.getpid()})
    return number * number


def failing(number, send):
    sys.stdout.write("about to fail\n")
    raise ValueError(f"no {number}")


def dying(code, send):
    os._exit(code)


def giving_a_set(value, send):
    return {1, 2}


def endless(value, send):
    send("begun")
    signal.pause()


def stubborn(value, send):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    send("begun")
    while True:
        signal.pause()


def leaving_a_child(fifo, send):
    """Start a child that keeps a file open until it ends."""
    open_file = os.open(fifo, os.O_WRONLY)
    if os.fork() == 0:
        signal.pause()
    os.close(open_file)
    return "done"


def stalling(seconds, send):
    arm_watchdog(seconds)
    while True:
        signal.pause()


def resting(seconds, send):
    arm_watchdog(seconds)
    disarm_watchdog()
    signal.sigtimedwait([signal.SIGUSR1], 2 * seconds)


def adding(argument, send):
    """Add each message to the argument; die at a negative number."""
    total = argument
    for number in iter_messages(send):
        if number < 0:
            os.kill(os.getpid(), signal.SIGSEGV)
        total += number
        send(total)


def holding_the_interpreter(value, send):
    """Sleep with the GIL held, like some libraries."""
    send("at work")
    ctypes.PyDLL(None).sleep(60)


def with_a_child(value, send):
    subprocess.Popen(["sleep", "60"])
    holding_the_interpreter(value, send)


def fed_and_holding(argument, send):
    for _ in iter_messages(send):
        holding_the_interpreter(None, send)


def rank_holding(argument, ready):
    ready()
    holding_the_interpreter(None, lambda said: os.write(1, f"{said}\n".encode()))


def working(argument, send):
    """Work on all chunks it can claim, one by one or together; die at a bad one.

    `plan` tells how, and which payloads are reported as decoded.
    """
    plan = argument["plan"]
    claimed = iter_claimed_chunks(argument, send)
    for speakers in ([each] for each in claimed) if plan.get("one_by_one") else [[*claimed]]:
        for speaker in speakers:
            speaker.report_started()
        for speaker in speakers:
            if speaker.payload in plan.get("reads", ()):
                speaker.report_decoded()
        with Path(argument["notes"]).open("a") as notes:
            notes.write(" ".join(speaker.chunk for speaker in speakers) + "\n")
        if any(speaker.payload == "bad" for speaker in speakers):
            if "signal" not in plan:
                raise MemoryError
            os.kill(os.getpid(), plan["signal"])
        for speaker in speakers:
            speaker.report_done()


@contextmanager
def counting(_):
    """Source that writes as many numbers into the memory as ordered."""

    def work(order, waiter, memory):
        for number in range(order):
            waiter.until(0)
            memory()[:] = bytes([number]) * len(memory())
            yield number

    yield work


@contextmanager
def doubling(added):
    def work(memory, value):
        assert set(memory) == {value}, "the memory belongs to this item"
        memory[:] = bytes([2 * value + added]) * len(memory)
        return 2 * value + added

    yield work


@contextmanager
def telling_pid(_):
    yield lambda memory, value: os.getpid()


@contextmanager
def failing_stage(kind):
    def work(memory, value):
        if value == 2:
            damage = DecodeError("frame 2 is damaged", source="a.mp4", pts=7)
            raise damage if kind == "media" else ValueError("no 2")
        return value

    yield work


@contextmanager
def unmakable(_):
    raise ValueError("no model")
    yield


@contextmanager
def ending(code):
    """Stage that exits with a code, or by a signal if the code is negative."""
    yield lambda memory, value: os._exit(code) if code >= 0 else os.kill(os.getpid(), -code)
