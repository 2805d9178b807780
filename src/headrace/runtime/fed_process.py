"""A Python program in a process of its own, fed with messages one at a time."""

import subprocess
import sys
from contextlib import suppress


class FedProcess:
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
