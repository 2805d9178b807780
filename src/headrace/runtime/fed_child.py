"""A function in a child process that lives on from one piece of work to the next."""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from selectors import DefaultSelector
from typing import Final

from headrace.runtime.child import Call, Ending, Json
from headrace.runtime.child_process import ChildProcess
from headrace.runtime.clock import SYSTEM_CLOCK, Clock

_MORE: Final = "more"
_LOOK_SECONDS: Final = 0.05


class FedChild:
    """Runs a function that takes what it does from `fed_messages`; not thread-safe.

    What is dear to begin with, such as a model, is made once. It ends when its parent does.
    """

    def __init__(
        self,
        call: Call,
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
        self._ending: Ending | None = None
        self._selector = DefaultSelector()
        try:
            self._process = ChildProcess(
                replace(call, is_fed=True), self._selector, self._hear, grace_seconds, clock
            )
        except BaseException:
            self._selector.close()
            raise

    def do(self, message: Json) -> Ending | None:
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
    """Yield what a `FedChild` is to do, in its process; asking for the next, one is done.

    Args:
        send: What the function was given to send with; "more" is a word of ours.
    """
    send(_MORE)
    for line in sys.stdin:
        yield json.loads(line)
        send(_MORE)
