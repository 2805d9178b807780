"""SIGTERM ends a command as Ctrl-C does: what was recorded stays whole."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130
"""Exit code after Ctrl-C."""
TERMINATED = 143
"""Exit code after SIGTERM."""
NOTHING_RECORDED = "headrace: interrupted before anything was recorded"
"""Said after Ctrl-C, be it the first one, early, or a second one while results are written."""


class Terminated(KeyboardInterrupt):
    """Somebody asked this process to end."""


class Ending:
    """Whether, and how, the command was asked to end."""

    exit_code = INTERRUPTED
    """Of a command that was interrupted."""


def end_at_once() -> None:
    """Let a further Ctrl-C end the process without a word: all that is to be said was said."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def ending_on_sigterm() -> Iterator[Ending]:
    """Let SIGTERM interrupt what runs inside; the first one, a further one is too impatient."""
    ending = Ending()

    def terminate(number: int, frame: FrameType | None) -> None:
        if ending.exit_code != TERMINATED:
            ending.exit_code = TERMINATED
            raise Terminated

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield ending
    finally:
        signal.signal(signal.SIGTERM, before)
