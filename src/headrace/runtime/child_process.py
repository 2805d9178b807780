"""One child at work: its process, what it writes, and its end."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from selectors import EVENT_READ, BaseSelector
from typing import IO, Final, cast

from headrace.runtime.child_main import command_line
from headrace.runtime.child_spec import Child, CommandSpec, CompletedChild, Json
from headrace.runtime.clock import Clock
from headrace.runtime.posix import held_interrupts, kill_at_hangup

_TAIL_BYTES: Final = 8192
_CHUNK: Final = 65_536


class ChildProcess:
    """A child that runs, in a process group of its own; not thread-safe.

    It registers its pipes with a selector: when one has something, `read` it. `look` now and then
    until it tells the ending, and `close` in any case.
    """

    def __init__(
        self,
        child: Child,
        selector: BaseSelector,
        on_message: Callable[[str, Json], None],
        grace_seconds: float,
        clock: Clock,
    ) -> None:
        """Start it.

        Args:
            child: What to run.
            selector: Gets its pipes, each with this object as its data.
            on_message: Called with the child's name and what it sends.
            grace_seconds: Between the request to end (SIGTERM) and the end (SIGKILL).
            clock: Tells when its time is over.

        Raises:
            OSError: it cannot be started.
            TypeError: the argument of its function is not JSON.
        """
        self._child = child
        self._selector = selector
        self._on_message = on_message
        self._grace_seconds = grace_seconds
        self._clock = clock
        self._tail = bytearray()
        self._line = bytearray()
        self._messages: list[Json] = []
        self._result: Json = None
        self._has_result = isinstance(child, CommandSpec)  # a program has none to give
        self._error: str | None = None
        self._has_timed_out = False
        self._kill_at_ns: int | None = None
        self._started_ns = clock.now_ns()
        self._process, output, results, self._lifeline = _started(child)
        self._pipes = {output: self._keep_tail}
        if results is not None:
            self._pipes[results] = self._hear
        for each in self._pipes:
            os.set_blocking(each, False)
            selector.register(each, EVENT_READ, self)

    def feed(self, message: Json) -> None:
        """Give it a message, if it is fed; it should be waiting for one, or this may wait, too."""
        feed = self._process.stdin
        if feed is not None:
            with suppress(BrokenPipeError):  # `look` tells how it ended
                feed.write(json.dumps(message).encode() + b"\n")
                feed.flush()

    def read(self, pipe: int) -> bool:
        """Take in what one pipe has; say whether more may come at once."""
        try:
            chunk = os.read(pipe, _CHUNK)
        except BlockingIOError:
            return False
        if chunk:
            self._pipes[pipe](chunk)
        else:
            self._close_pipe(pipe)
        return bool(chunk)

    def look(self) -> CompletedChild | None:
        """How it ended; None while it runs, and then it is ended when its time is over."""
        if self._process.poll() is None:
            self._keep_time()
            return None
        seconds = (self._clock.now_ns() - self._started_ns) / 1e9
        self._signal(signal.SIGKILL)  # its own children, which may keep its pipes open
        for pipe in tuple(self._pipes):
            while self.read(pipe):
                pass
        self.close()
        if not (self._has_result or self._error or self._has_timed_out or self._process.returncode):
            self._error = "it ended without a result"
        return CompletedChild(
            name=self._child.name,
            exit_code=self._process.returncode,
            has_timed_out=self._has_timed_out,
            seconds=seconds,
            tail=self._tail.decode("utf-8", "replace"),
            result=self._result,
            messages=tuple(self._messages),
            error=self._error,
        )

    def terminate(self) -> None:
        """Ask it and its own children to end."""
        self._signal(signal.SIGTERM)

    def stop(self) -> None:
        """Ask it to end, and end it when its grace is over; `look` goes on to tell."""
        if self._kill_at_ns is None:
            self._kill_at_ns = self._clock.now_ns() + round(self._grace_seconds * 1e9)
            self.terminate()

    def close(self) -> None:
        """End it, if it runs, and its own children; give back its pipes. May be called again."""
        try:
            if self._process.poll() is None:
                self.terminate()
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(self._grace_seconds)
        finally:
            with held_interrupts():
                self._signal(signal.SIGKILL)
                self._process.wait()
                for pipe in tuple(self._pipes):
                    self._close_pipe(pipe)
                self._lifeline.close()
                if self._process.stdin is not None:
                    with suppress(BrokenPipeError):
                        self._process.stdin.close()

    def _keep_time(self) -> None:
        now_ns, limit = self._clock.now_ns(), self._child.timeout_seconds
        if self._kill_at_ns is not None:
            if now_ns >= self._kill_at_ns:
                self._signal(signal.SIGKILL)
        elif limit is not None and now_ns - self._started_ns >= limit * 1e9:
            self._has_timed_out = True
            self.stop()

    def _keep_tail(self, chunk: bytes) -> None:
        self._tail += chunk
        del self._tail[:-_TAIL_BYTES]

    def _hear(self, chunk: bytes) -> None:
        *lines, rest = (bytes(self._line) + chunk).split(b"\n")
        self._line = bytearray(rest)
        for line in lines:
            self._hear_line(line)

    def _hear_line(self, line: bytes) -> None:
        try:
            said = json.loads(line)
        except ValueError:
            said = None
        match said:
            case {"message": message}:
                self._messages.append(message)
                self._on_message(self._child.name, message)
            case {"result": result}:
                self._result, self._has_result = result, True
            case {"error": str(error)}:
                self._error = error
            case _:
                self._error = f"it sent what cannot be read: {line[:80]!r}"

    def _close_pipe(self, pipe: int) -> None:
        self._selector.unregister(pipe)
        del self._pipes[pipe]
        os.close(pipe)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):  # nobody is left
            os.killpg(self._process.pid, number)


def _started(child: Child) -> tuple["subprocess.Popen[bytes]", int, int | None, IO[bytes]]:
    """Return the process, where its output comes from, where a function's results do, and what
    is closed after its end: see `_popen`."""
    if isinstance(child, CommandSpec):
        process, output, lifeline = _popen(child.arguments, child.folder, child.environment)
        return process, output, None, lifeline
    ours, theirs = os.pipe()
    try:
        line = command_line(child, theirs)
        process, output, lifeline = _popen(line, pass_fds=(theirs,), is_fed=child.is_fed)
        return process, output, ours, lifeline
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)


def _popen(
    arguments: Sequence[str],
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    pass_fds: tuple[int, ...] = (),
    is_fed: bool = False,
) -> tuple["subprocess.Popen[bytes]", int, IO[bytes]]:
    """Return the process, its output, and an end of a pipe: closed, as by our end, it is killed."""
    theirs, ours = os.pipe()
    lifeline = os.fdopen(ours, "wb", 0)
    try:
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.PIPE if is_fed else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=environment,
            pass_fds=(*pass_fds, theirs),
            start_new_session=True,  # its own children end with it, and Ctrl-C is ours to pass on
        )
        kill_at_hangup(theirs, -process.pid)
    except BaseException:
        lifeline.close()
        raise
    finally:
        os.close(theirs)
    with cast(IO[bytes], process.stdout) as output:
        return process, os.dup(output.fileno()), lifeline
