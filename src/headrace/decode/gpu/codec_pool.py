"""Pool of idle GPU codecs, reusable by streams with equal parameter sets.

Creating a GPU codec costs more than most jobs, because the driver allocates a decoder and its
surfaces; a CPU codec takes 0.03 ms.
"""

from __future__ import annotations

import os
from collections.abc import Hashable
from typing import Final, NamedTuple, Protocol, TypeVar

from headrace.runtime.fork_safety import ForkSafeLock

MAX_BYTES: Final = 1 << 30
"""Maximum bytes of GPU memory of idle codecs, by estimate."""


class FlushableCodec(Protocol):
    """A codec that can drop its decoding state."""

    def flush_buffers(self) -> None:
        """Drop the decoding state."""
        ...


_Kind = TypeVar("_Kind", bound=FlushableCodec)


class _IdleCodec(NamedTuple):
    key: Hashable
    codec: FlushableCodec
    num_bytes: int
    process: int


class CodecPool:
    """LRU pool of idle codecs. Thread-safe.

    After a fork, codecs of the parent process are never returned.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        """Start empty; above `max_bytes` the codecs idle for longest are freed."""
        self._max_bytes = max_bytes
        self._lock = ForkSafeLock()
        self._idle: list[_IdleCodec] = []

    def release(self, key: Hashable, codec: FlushableCodec, num_bytes: int) -> None:
        """Add a working codec to the pool.

        Args:
            key: All parameters of the stream; streams with equal keys may share the codec.
            codec: The codec, without pending frames.
            num_bytes: Upper bound of its GPU memory.
        """
        codec.flush_buffers()
        with self._lock:
            self._idle.append(_IdleCodec(key, codec, num_bytes, os.getpid()))
            released = []
            while sum(entry.num_bytes for entry in self._idle) > self._max_bytes:
                released.append(self._idle.pop(0))
        # Freed outside the lock: the driver is slow.
        del released

    def acquire(self, key: Hashable, kind: type[_Kind]) -> _Kind | None:
        """Remove and return a flushed codec with this key and class; None without a match."""
        with self._lock:
            for position in reversed(range(len(self._idle))):
                entry = self._idle[position]
                is_match = entry.key == key and entry.process == os.getpid()
                if is_match and isinstance(entry.codec, kind):
                    del self._idle[position]
                    return entry.codec
        return None

    def clear(self) -> bool:
        """Free all codecs of this process; return whether there were any."""
        process = os.getpid()
        with self._lock:
            released = [entry for entry in self._idle if entry.process == process]
            self._idle = [entry for entry in self._idle if entry.process != process]
        return bool(released)


IDLE_CODECS: Final = CodecPool()
"""The pool of this process."""
