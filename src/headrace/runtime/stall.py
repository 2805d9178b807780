"""A process that stalls ends itself, even where it hangs inside a library."""

import faulthandler
from typing import Final

_WORDS: Final = "Timeout ("
"""What the interpreter writes before it ends a process that stalled."""


def end_if_stalled(seconds: float) -> None:
    """End this process unless this, or `may_rest`, is called again within so many seconds.

    It writes to its standard error where it hung, and ends with exit code 1. The watch is a thread
    of the interpreter's own, which needs no lock, so code that never returns is ended too.
    """
    faulthandler.dump_traceback_later(seconds, exit=True)


def may_rest() -> None:
    """Let this process take its time again."""
    faulthandler.cancel_dump_traceback_later()


def has_stalled(tail: str) -> bool:
    """Return whether a process with such an end of its standard error ended itself."""
    return _WORDS in tail
