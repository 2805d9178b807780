"""A check that is made in a forked child."""

import os
import signal
from collections.abc import Callable

_HANG_SECONDS = 30


def in_a_fork(check: Callable[[], object]) -> bool:
    """Return whether `check` holds in a forked child; one that hangs is ended."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(_HANG_SECONDS)
        holds = False
        try:
            holds = bool(check())
        finally:
            os._exit(0 if holds else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
