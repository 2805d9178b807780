"""Parts of a loader's work by themselves: files behind a slow network, without one; no decoding.

A Python file waits before it gives a block.
"""

import io
import os
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from time import perf_counter, sleep
from typing import Any

from headrace import Source
from headrace.decode.pixels import Array
from headrace.decode.protocol import DecodeCounters
from headrace.decode.proxy_codecs import ProxyCodecs
from headrace.planning.lookahead import GopJob
from headrace.training.decoding import Decoded, JobDecoder

BLOCK_BYTES = 1 << 17
"""Asked for at a time: what Linux reads ahead of a mount of NFS unless it is told otherwise."""


def decode_nothing() -> None:
    """From here on, loaders of this process give memory that nothing was decoded into."""
    JobDecoder._decode = _undecoded  # type: ignore[method-assign, assignment]


def _undecoded(
    self: JobDecoder[Array], job: GopJob, codecs: ProxyCodecs
) -> tuple[Decoded[Array], DecodeCounters]:
    frames = {frame: self.memory.take() for frame in job.frames}
    return Decoded(frames=frames), DecodeCounters()


class Network:
    """What all files share: the wait of each request, and a bandwidth."""

    def __init__(self, latency_ms: float, megabytes_per_second: float | None) -> None:
        self._latency_seconds = latency_ms / 1e3
        self._seconds_per_byte = 1e-6 / megabytes_per_second if megabytes_per_second else 0.0
        self._free_at = 0.0
        self._lock = Lock()
        self.requests = 0

    def fetch(self, num_bytes: int) -> None:
        """Wait as long as a request for so many bytes takes; several may wait at a time."""
        with self._lock:
            now = perf_counter()
            self._free_at = max(now, self._free_at) + num_bytes * self._seconds_per_byte
            ready = max(now + self._latency_seconds, self._free_at)
            self.requests += 1
        if ready > now:
            sleep(ready - now)


@dataclass(frozen=True)
class SlowSource(Source):
    """A video whose bytes come by a network. Its index is that of the file, if it is known."""

    network: Network = field(kw_only=True, compare=False, repr=False)

    def for_ffmpeg(self) -> Any:
        """Return a new file, with a block of its own."""
        return SlowFile(self.path, self.network)


class SlowFile(io.RawIOBase):
    """Holds one block; each other one is a request."""

    def __init__(self, path: Path, network: Network) -> None:
        self._file = path.open("rb")
        self._size = os.fstat(self._file.fileno()).st_size
        self._network = network
        self._at, self._first, self._block = 0, 0, b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence] + offset
        return self._at

    def read(self, count: int = -1) -> bytes:
        """Return what is asked for as far as it lies in one block."""
        if self._at >= self._size:
            return b""
        first = self._at - self._at % BLOCK_BYTES
        if first != self._first or not self._block:
            self._file.seek(first)
            self._first, self._block = first, self._file.read(BLOCK_BYTES)
            self._network.fetch(len(self._block))
        start = self._at - first
        found = self._block[start:] if count < 0 else self._block[start : start + count]
        self._at += len(found)
        return found

    def close(self) -> None:
        self._file.close()
        super().close()
