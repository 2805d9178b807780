"""A function in a child process that lives on from one piece of work to the next."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from selectors import DefaultSelector
from typing import Final

from headrace.runtime.child_process import ChildProcess
from headrace.runtime.child_spec import CompletedChild, FunctionSpec, Json
from headrace.runtime.clock import SYSTEM_CLOCK, Clock

_MORE: Final = "more"
_LOOK_SECONDS: Final = 0.05


class PersistentChild:
    """Runs a function that takes what it does from `fed_messages`; not thread-safe.

    What is dear to begin with, such as a model, is made once. It ends when its parent does.
    """

    def __init__(
        self,
        call: FunctionSpec,
        on_message: Callable[[str, Json], None] = lambda name, message: None,
        grace_seconds: float = 2.0,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Start it.

        Args:
            call: What to run. Its time limit holds for all of its life.
            on_message: Called with its name and what it sends.
            grace_seconds: Between the request to end (SIGTERM) and the end (SIGKILL).
            clock: Tells when its time is over.

        Raises:
            OSError: it cannot be started.
            TypeError: its argument is not JSON.
        """
        self._on_message = on_message
        self._is_hungry = False
        self._ending: CompletedChild | None = None
        self._selector = DefaultSelector()
        try:
            self._process = ChildProcess(
                replace(call, is_fed=True), self._selector, self._hear, grace_seconds, clock
            )
        except BaseException:
            self._selector.close()
            raise

    def do(self, message: Json) -> CompletedChild | None:
        """Have it do a piece of work; return its ending, if it ended of it."""
        self._wait()  # until it has begun
        if self._ending is None:
            self._is_hungry = False
            self._process.feed(message)
            self._wait()
        return self._ending

    def close(self) -> None:
        """End it, if it runs. May be called again."""
        self._process.close()
        self._selector.close()

    def _wait(self) -> None:
        """Wait until it asks for more, or has ended."""
        while not self._is_hungry and self._ending is None:
            for key, _ in self._selector.select(_LOOK_SECONDS):
                key.data.read(key.fd)
            if not self._is_hungry:
                self._ending = self._process.look()

    def _hear(self, name: str, message: Json) -> None:
        if message == _MORE:
            self._is_hungry = True
        else:
            self._on_message(name, message)


def fed_messages(send: Callable[[Json], None]) -> Iterator[Json]:
    """Yield what a `PersistentChild` is to do, in its process; asking for the next, one is done.

    Args:
        send: What the function was given to send with; "more" is a word of ours.
    """
    send(_MORE)
    for line in sys.stdin:
        yield json.loads(line)
        send(_MORE)


class LineRpcProcess:
    """Runs a module that reads messages and answers each with a line.

    A message is its length, 4 bytes with the largest first, and its bytes. The program gets no
    Ctrl-C and ends when its input does, so it never outlives us.
    """

    def __init__(self, module: str, *arguments: str) -> None:
        """Start `python -m module arguments`; whatever it writes to its standard error is lost."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def answer(self) -> str | None:
        """Wait for the next line; None when the program has ended."""
        output = self._process.stdout
        line = output.readline() if output is not None else b""
        return line.decode(errors="replace").rstrip("\n") if line else None

    def ask(self, message: bytes) -> str | None:
        """Send one message and wait for its answer; None when the program has ended."""
        feed = self._process.stdin
        try:
            if feed is not None:
                feed.write(len(message).to_bytes(4, "big"))
                feed.write(message)
                feed.flush()
            return self.answer()
        except (BrokenPipeError, ValueError):  # it has ended, or was closed
            return None

    def close(self) -> None:
        """End the program at once; who waits for an answer gets None. Harmless when repeated."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()
