"""SIGTERM handled like Ctrl-C; both are forwarded to a program that runs in place of a command."""

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
"""Message after a Ctrl-C before the work itself."""
STDERR: Final = 2
"""File descriptor."""
_Handler = Callable[[int, FrameType | None], None]


class Terminated(KeyboardInterrupt):
    """SIGTERM reached this process."""


class Ending:
    """Signal state of a command."""

    exit_code = INTERRUPTED
    """Exit code if the command is interrupted."""
    is_interrupted = False
    """Whether SIGINT or SIGTERM arrived."""
    has_started = False
    """Whether the work itself started, so that there are results to keep."""
    is_deferred = False
    """Whether the first signal waits for `release`."""

    def start(self) -> None:
        """Mark the start of the work.

        Raises:
            KeyboardInterrupt: a signal arrived earlier, and its exception was swallowed.
        """
        self.release()
        self.has_started = True

    def release(self) -> None:
        """Let signals interrupt immediately again.

        Raises:
            KeyboardInterrupt: a signal arrived earlier.
        """
        self.is_deferred = False
        if self.is_interrupted:
            raise KeyboardInterrupt

    def record_signal(self) -> bool:
        """Record a signal; return whether it interrupts now."""
        self.is_deferred = self.is_deferred and not self.is_interrupted
        self.is_interrupted = True
        return not self.is_deferred


def restore_default_sigint() -> None:
    """Let a further Ctrl-C end the process silently, since all messages are printed."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def ending_on_sigterm() -> Iterator[Ending]:
    """Let SIGTERM interrupt the block as Ctrl-C does; a repeated SIGTERM is ignored."""
    ending = Ending()

    def terminate(number: int, frame: FrameType | None) -> None:
        # A second SIGTERM counts only while the first is deferred.
        counts = ending.is_deferred or ending.exit_code != TERMINATED
        ending.exit_code = TERMINATED
        if ending.record_signal() and counts:
            raise Terminated

    def interrupt(number: int, frame: FrameType | None) -> None:
        if ending.record_signal():
            raise KeyboardInterrupt

    with _handling({signal.SIGTERM: terminate, signal.SIGINT: interrupt}):
        yield ending


@contextmanager
def ending_at_once() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the process immediately, with a message.

    For imports: there are no results yet, and some libraries swallow exceptions in their imports.
    """

    def end(number: int, frame: FrameType | None) -> None:
        os.write(STDERR, b"headrace: interrupted\n")
        os._exit(INTERRUPTED if number == signal.SIGINT else TERMINATED)

    with _handling({signal.SIGTERM: end, signal.SIGINT: end}):
        yield


@contextmanager
def _handling(handlers: dict[signal.Signals, _Handler]) -> Iterator[None]:
    """Install handlers; SIGINT only over Python's own, as a shell ignores it in the background."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        handlers = {number: handlers[number] for number in handlers if number != signal.SIGINT}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass(frozen=True, kw_only=True)
class ChildEnd:
    """End of a program that ran in place of this one."""

    code: int
    """Exit code; negative: the signal that ended it."""
    is_interrupted: bool = False
    """Whether Ctrl-C or SIGTERM arrived meanwhile."""

    def __str__(self) -> str:
        """`was interrupted`, `ended with exit code 1`."""
        if self.is_interrupted:
            return "was interrupted"
        if self.code < 0:
            return f"was ended by signal {-self.code}"
        return f"ended with exit code {self.code}"


def run_in_place(program: str, arguments: Sequence[str], *, stdout: int | None = None) -> ChildEnd:
    """Run a program with the terminal and the process group of this process.

    Ctrl-C and SIGTERM reach the program and not this process, which waits for it. A SIGINT that
    another process sends while this one is in the foreground of a terminal counts as Ctrl-C, but
    does not reach the program.

    Args:
        program: Path of the executable.
        arguments: Arguments, the name first.
        stdout: File descriptor of its standard output; None: that of this process.
    """
    signals: list[int] = []
    child: subprocess.Popen[bytes] | None = None

    def forward(number: int, frame: FrameType | None) -> None:
        signals.append(number)
        if child is not None and not (number == signal.SIGINT and _is_in_foreground()):
            child.send_signal(number)

    with _handling({signal.SIGTERM: forward, signal.SIGINT: forward}):
        child = subprocess.Popen(arguments, executable=program, stdout=stdout)
        for number in tuple(signals):
            child.send_signal(number)  # arrived before `child` was assigned
        return ChildEnd(code=child.wait(), is_interrupted=bool(signals))


def _is_in_foreground() -> bool:
    """Whether Ctrl-C in a terminal reaches this process, and so its whole process group.

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
    """Replace this process by a program, by exec; for the arguments see `run_in_place`.

    Signals, terminal and exit code are then the program's own. On Windows, where exec would return
    the terminal before the program ends, the program runs as a child.
    """
    if sys.platform == "win32":
        exit_as(run_in_place(program, arguments).code)
    os.execv(program, list(arguments))


def exit_as(code: int) -> NoReturn:
    """End this process with the exit code or the signal of a child."""
    if code < 0:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        with suppress(OSError):  # SIGKILL has no handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)
