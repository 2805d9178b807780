"""Files behind a slow network, without one, and a loader that reads them.

A Python file waits before it gives a block.
"""

import io
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from pathlib import Path
from threading import Lock
from time import perf_counter, sleep
from typing import Any

from benchmarks.resources import steady
from headrace import Bursts, FrameLoader, Sampler, Source, Uniform
from headrace.decode.pixels import Array
from headrace.decode.protocol import DecodeCounters
from headrace.decode.proxy_codecs import ProxyCodecs
from headrace.planning.lookahead import GopJob
from headrace.training.decoding import Decoded, JobDecoder

BLOCK_BYTES = 1 << 17
"""Asked for at a time: what Linux reads ahead of a mount of NFS unless it is told otherwise."""


def load(
    *,
    paths: Sequence[str],
    size: Sequence[int],
    batch_size: int,
    threads: int,
    frames_per_burst: int | None,
    way: str,
    latency_ms: float,
    megabytes_per_second: float | None,
    warm_up_seconds: float,
    seconds: float,
    **options: Any,
) -> dict[str, Any]:
    """Time batches after the warm-up; the checksum is that of the first one."""
    if way == "undecoded":
        JobDecoder._decode = _undecoded  # type: ignore[method-assign, assignment]
    network = Network(latency_ms, megabytes_per_second)
    is_slow = latency_ms > 0 or megabytes_per_second is not None
    files = [Path(each) for each in paths]
    sampling: Sampler = Uniform(seed=1)
    if frames_per_burst is not None:
        sampling = Bursts(frames_per_burst=frames_per_burst, lanes=batch_size, seed=1)
    with FrameLoader(
        [SlowSource(each, network=network) if is_slow else Source(each) for each in files],
        batch_size=batch_size,
        size=(size[0], size[1]),
        sampling=sampling,
        workers=threads,
        **options,
    ) as loader:
        batches = chain.from_iterable(repeat(loader))
        first = next(batches)
        found = steady(
            chain([first], batches),
            loader.lookahead,
            warm_up_seconds,
            seconds,
            lambda: {"requests": network.requests},
        )
        assert bool(loader.statistics.frames_decoded) == (way == "decoded")
    found.pop("first_seconds")
    return {
        "requests": found.pop("requests"),
        "repeat": found,
        "checksum": zlib.crc32(first.frames.numpy().tobytes()),
    }


def _undecoded(
    self: JobDecoder[Array], job: GopJob, codecs: ProxyCodecs
) -> tuple[Decoded[Array], DecodeCounters]:
    """Give memory that nothing was decoded into."""
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
