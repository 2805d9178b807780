"""SIGTERM ends a command as Ctrl-C does: what was recorded stays whole."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130
"""Exit code after Ctrl-C."""
TERMINATED = 143
"""Exit code after SIGTERM."""


class Terminated(KeyboardInterrupt):
    """Somebody asked this process to end."""


class Ending:
    """Whether, and how, the command was asked to end."""

    exit_code = INTERRUPTED
    """Of a command that was interrupted."""


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
