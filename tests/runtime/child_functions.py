"""What the children of the tests do; imports little, because each child imports it."""

import os
import signal
import sys
from pathlib import Path

from headrace.runtime.fed_child import fed_messages
from headrace.runtime.stall import end_if_stalled, may_rest


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
    """The child of the child has the file open for as long as it lives."""
    open_file = os.open(fifo, os.O_WRONLY)
    if os.fork() == 0:
        signal.pause()
    os.close(open_file)
    return "done"


def stalling(seconds, send):
    end_if_stalled(seconds)
    while True:
        signal.pause()


def resting(seconds, send):
    end_if_stalled(seconds)
    may_rest()
    signal.sigtimedwait([signal.SIGUSR1], 2 * seconds)


def adding(argument, send):
    """Adds what it is fed to its argument, and dies of a negative number."""
    total = argument
    for number in fed_messages(send):
        if number < 0:
            os.kill(os.getpid(), signal.SIGSEGV)
        total += number
        send(total)
    Path(os.environ["ENDED"]).touch()
