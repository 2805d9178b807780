"""Children that stay alive between jobs: a function on JSON messages, a module on binary ones."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from selectors import DefaultSelector
from typing import IO, Final, cast

from headrace.runtime.child_process import ChildProcess
from headrace.runtime.child_spec import CompletedChild, FunctionSpec, Json
from headrace.runtime.clock import SYSTEM_CLOCK

_READY: Final = "more"
"""Message of a child that is ready for its next job."""
_GRACE_SECONDS: Final = 2.0
"""Time between SIGTERM and SIGKILL."""
_POLL_SECONDS: Final = 0.05
"""Seconds between two looks at a child that sends nothing."""


class PersistentChild:
    """Child whose function reads its jobs from `iter_messages`; not thread-safe.

    A costly start, such as that of a model, is paid once. The child ends with this process.
    """

    def __init__(
        self,
        call: FunctionSpec,
        on_message: Callable[[str, Json], None] = lambda name, message: None,
    ) -> None:
        """Start it.

        Args:
            call: What to run. Its time limit is that of its whole life.
            on_message: Called with its name and each message it sends.

        Raises:
            OSError: it cannot be started.
            TypeError: its argument is not JSON.
        """
        self._on_message = on_message
        self._is_ready = False
        self._ending: CompletedChild | None = None
        self._selector = DefaultSelector()
        try:
            self._process = ChildProcess(
                replace(call, reads_messages=True),
                self._selector,
                self._receive,
                _GRACE_SECONDS,
                SYSTEM_CLOCK,
            )
        except BaseException:
            self._selector.close()
            raise

    def run(self, message: Json) -> CompletedChild | None:
        """Run one job; return how the child ended, or None where it is ready for the next job."""
        self._wait()  # until it has started
        if self._ending is None:
            self._is_ready = False
            self._process.send(message)
            self._wait()
        return self._ending

    def close(self) -> None:
        """End it, if it runs. May be called again."""
        self._process.close()
        self._selector.close()

    def _wait(self) -> None:
        """Wait until it is ready for a job, or has ended."""
        while not self._is_ready and self._ending is None:
            for key, _ in self._selector.select(_POLL_SECONDS):
                key.data.read(key.fd)
            if not self._is_ready:
                self._ending = self._process.poll()

    def _receive(self, name: str, message: Json) -> None:
        if message == _READY:
            self._is_ready = True
        else:
            self._on_message(name, message)


def iter_messages(send: Callable[[Json], None]) -> Iterator[Json]:
    """Yield the jobs of a `PersistentChild`, in its process; taking the next ends the one before.

    Args:
        send: The function that the child's function was given; it must not send "more" itself.
    """
    send(_READY)
    for line in sys.stdin:
        yield json.loads(line)
        send(_READY)


class LineRpcProcess:
    """Process of a module that reads binary requests and writes one line for each.

    A request is its length, 4 bytes big-endian, and its bytes. The process gets no Ctrl-C and
    ends when its input does, so it never outlives this one.
    """

    def __init__(self, module: str, *arguments: str) -> None:
        """Start `python -m module arguments`; its standard error is discarded."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def read_line(self) -> str | None:
        """Wait for the next line; None when the process has ended."""
        line = cast(IO[bytes], self._process.stdout).readline()
        return line.decode(errors="replace").rstrip("\n") if line else None

    def request(self, message: bytes) -> str | None:
        """Send a request and wait for its line; None when the process has ended."""
        stdin = cast(IO[bytes], self._process.stdin)
        try:
            stdin.write(len(message).to_bytes(4, "big"))
            stdin.write(message)
            stdin.flush()
            return self.read_line()
        except (BrokenPipeError, ValueError):  # it has ended, or was closed
            return None

    def close(self) -> None:
        """End the process at once; a pending request returns None. May be called again."""
        with suppress(BrokenPipeError), self._process:  # closes its pipes
            self._process.kill()
