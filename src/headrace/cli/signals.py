"""SIGTERM ends a command as Ctrl-C does; both reach a program that runs in its place."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Final, NoReturn

INTERRUPTED = 130
"""Exit code after Ctrl-C."""
TERMINATED = 143
"""Exit code after SIGTERM."""
NOTHING_RECORDED = "headrace: interrupted before anything was recorded"
"""Said after a Ctrl-C that came before the work itself."""
STDERR: Final = 2
"""File descriptor."""
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
        os.write(STDERR, b"headrace: interrupted\n")
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


@dataclass(frozen=True, kw_only=True)
class ChildEnd:
    """End of a program that ran in place of this one."""

    code: int
    """Its exit code; negative: the signal that ended it."""
    is_asked: bool = False
    """Whether Ctrl-C or SIGTERM came meanwhile."""

    def __str__(self) -> str:
        """`was interrupted`, `ended with exit code 1`."""
        if self.is_asked:
            return "was interrupted"
        if self.code < 0:
            return f"was ended by signal {-self.code}"
        return f"ended with exit code {self.code}"


def run_in_place(program: str, arguments: Sequence[str], *, stdout: int | None = None) -> ChildEnd:
    """Run a program with the terminal and the process group of this process.

    Ctrl-C and SIGTERM do not end this process: it waits for the end of the program, which has them.
    A SIGINT that another process sends while this one is in the foreground of a terminal counts as
    Ctrl-C, but does not reach the program.

    Args:
        program: Path of its file.
        arguments: All of them, its name first.
        stdout: Its standard output; None: that of this process.
    """
    signals: list[int] = []
    child: subprocess.Popen[bytes] | None = None

    def pass_on(number: int, frame: FrameType | None) -> None:
        signals.append(number)
        if child is not None and not (number == signal.SIGINT and _is_in_foreground()):
            child.send_signal(number)

    with _handling({signal.SIGTERM: pass_on, signal.SIGINT: pass_on}):
        child = subprocess.Popen(arguments, executable=program, stdout=stdout)
        for number in tuple(signals):
            child.send_signal(number)  # it came before the child was known
        return ChildEnd(code=child.wait(), is_asked=bool(signals))


def _is_in_foreground() -> bool:
    """Return whether Ctrl-C in a terminal reaches this process, and so all of its group.

    On Windows it reaches all programs of a console.
    """
    if sys.platform == "win32":
        return True
    try:
        terminal = os.open(os.ctermid(), os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def become(program: str, arguments: Sequence[str]) -> NoReturn:
    """Run a program in place of this process, which ends: see `run_in_place` for the arguments.

    By exec signals, terminal and exit code reach it directly. On Windows exec would return the
    terminal before the program ends.
    """
    if sys.platform == "win32":
        exit_as(run_in_place(program, arguments).code)
    os.execv(program, list(arguments))


def exit_as(code: int) -> NoReturn:
    """End this process as a child ended: with its exit code, or by its signal."""
    if code < 0:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        with suppress(OSError):  # SIGKILL has no handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)
