"""A lock that goes where its owner goes: into forked processes, and into others as data."""

import os
import threading
from types import TracebackType


class ThreadLock:
    """`with lock: ...` is done by one thread at a time, which may take it again inside.

    In a process that was forked while somebody held it, and in one that it is sent to, it is free.
    """

    def __init__(self) -> None:
        self._new()

    def _new(self) -> None:
        self._lock = threading.RLock()
        self._pid = os.getpid()

    def __enter__(self) -> "ThreadLock":
        if self._pid != os.getpid():
            self._new()
        self._lock.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()

    def __getstate__(self) -> dict[str, object]:
        return {}

    def __setstate__(self, state: dict[str, object]) -> None:
        self._new()
