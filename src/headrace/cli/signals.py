"""SIGTERM ends a command as Ctrl-C does: what was recorded stays whole."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

INTERRUPTED = 130
"""Exit code after Ctrl-C."""
TERMINATED = 143
"""Exit code after SIGTERM."""
NOTHING_RECORDED = "headrace: interrupted before anything was recorded"
"""Said after a Ctrl-C that came before the work itself."""
_STDERR: Final = 2
_Handler = Callable[[int, FrameType | None], None]


class Terminated(KeyboardInterrupt):
    """Somebody asked this process to end."""


class Ending:
    """Whether, and how, the command was asked to end."""

    exit_code = INTERRUPTED
    """Of a command that was interrupted."""
    is_asked = False
    has_begun = False
    """The work itself: there is something to keep."""
    is_held = False
    """Whether the first signal waits for `release`."""

    def begin(self) -> None:
        """Say that the work begins.

        Raises:
            KeyboardInterrupt: the command was asked to end, and something swallowed that.
        """
        self.release()
        self.has_begun = True

    def release(self) -> None:
        """Let signals interrupt at once again.

        Raises:
            KeyboardInterrupt: the command was asked to end before.
        """
        self.is_held = False
        if self.is_asked:
            raise KeyboardInterrupt

    def interrupts_now(self) -> bool:
        """Note a signal; return whether it interrupts now."""
        self.is_held, self.is_asked = self.is_held and not self.is_asked, True
        return not self.is_held


def end_at_once() -> None:
    """Let a further Ctrl-C end the process without a word: all that is to be said was said."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def ending_on_sigterm() -> Iterator[Ending]:
    """Let SIGTERM interrupt what runs inside; the first one, a further one is too impatient."""
    ending = Ending()

    def terminate(number: int, frame: FrameType | None) -> None:
        is_heeded = ending.is_held or ending.exit_code != TERMINATED
        ending.exit_code = TERMINATED
        if ending.interrupts_now() and is_heeded:
            raise Terminated

    def interrupt(number: int, frame: FrameType | None) -> None:
        if ending.interrupts_now():
            raise KeyboardInterrupt

    with _handling({signal.SIGTERM: terminate, signal.SIGINT: interrupt}):
        yield ending


@contextmanager
def ending_at_once() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the process where it stands, with a word.

    For imports: nothing is there to keep, and some libraries swallow what is raised in theirs.
    """

    def end(number: int, frame: FrameType | None) -> None:
        os.write(_STDERR, b"headrace: interrupted\n")
        os._exit(INTERRUPTED if number == signal.SIGINT else TERMINATED)

    with _handling({signal.SIGTERM: end, signal.SIGINT: end}):
        yield


@contextmanager
def _handling(handlers: dict[signal.Signals, _Handler]) -> Iterator[None]:
    """Handle signals; Ctrl-C only where Python does, as a background shell has it ignored."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        handlers = {each: handlers[each] for each in handlers if each != signal.SIGINT}
    before = {each: signal.signal(each, handler) for each, handler in handlers.items()}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
