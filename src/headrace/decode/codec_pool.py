"""Codecs of GPUs that nobody decodes with, each ready for another stream that tells it the same.

To set one up costs more there than most jobs: the driver is asked for a decoder and its surfaces,
where a codec of the CPU is made in 0.03 ms.
"""

from __future__ import annotations

import os
from collections.abc import Hashable
from typing import Final, NamedTuple, Protocol, TypeVar

from headrace.runtime.fork_safety import ForkSafeLock

MOST_BYTES: Final = 1 << 30
"""Of GPUs, that codecs may hold which rest, by the estimate of whoever lets them rest."""


class Flushed(Protocol):
    """A codec that forgets what it decoded."""

    def flush_buffers(self) -> None:
        """Forget it."""
        ...


_Kind = TypeVar("_Kind", bound=Flushed)


class _Resting(NamedTuple):
    look: Hashable
    codec: Flushed
    num_bytes: int
    process: int


class CodecPool:
    """Keeps codecs until they are taken, those that were used last; for any threads.

    Those of another process, from which this one was forked, are never given.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        """None yet; beyond so many bytes those that rest longest are released."""
        self._most_bytes = most_bytes
        self._lock = ForkSafeLock()
        self._resting: list[_Resting] = []

    def put(self, look: Hashable, codec: Flushed, num_bytes: int) -> None:
        """Let a codec rest that has decoded well, and holds so many bytes.

        Args:
            look: All that it was told of its stream; who asks for the same may have it.
            codec: It; none of its frames are waited for.
            num_bytes: At most, on the GPU.
        """
        codec.flush_buffers()
        with self._lock:
            self._resting.append(_Resting(look, codec, num_bytes, os.getpid()))
            released = []
            while sum(each.num_bytes for each in self._resting) > self._most_bytes:
                released.append(self._resting.pop(0))
        # Without the lock: the driver takes its time.
        del released

    def take(self, look: Hashable, kind: type[_Kind]) -> _Kind | None:
        """Return a codec that was told `look`, flushed, which is the caller's now; None without.

        It is of that kind: those of another are told something else.
        """
        with self._lock:
            for place in reversed(range(len(self._resting))):
                each = self._resting[place]
                is_ours = each.look == look and each.process == os.getpid()
                if is_ours and isinstance(each.codec, kind):
                    del self._resting[place]
                    return each.codec
        return None

    def release(self) -> bool:
        """Release all of this process; return whether there were any."""
        here = os.getpid()
        with self._lock:
            released = [each for each in self._resting if each.process == here]
            self._resting = [each for each in self._resting if each.process != here]
        return bool(released)


RESTING: Final = CodecPool()
"""Those of this process."""
