"""Timing of a FrameLoader over many links or copies of a few videos.

The loader can read over a simulated slow network, or skip decoding.
"""

import io
import os
import struct
import zlib
from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass, field
from itertools import chain, cycle, islice, repeat
from pathlib import Path
from shutil import copyfile
from threading import Lock
from time import perf_counter, sleep
from typing import Any, Literal

import psutil

import headrace
from benchmarks.adapters import Delivery
from benchmarks.adapters.headrace import cost
from benchmarks.worker import peak_rss_bytes, rss_bytes, steady
from headrace.loaders.frame_memory import Decoded
from headrace.loaders.job_decoder import JobWorker
from headrace.planning.lookahead import GopJob

BLOCK_BYTES = 1 << 17
"""Bytes per request: the default read-ahead of Linux for NFS."""


def link_files(files: Sequence[Path], folder: Path, count: int) -> list[Path]:
    """Create `count` links in `folder` to the files, in a cycle."""
    folder.mkdir(parents=True)
    links = [folder / f"{number:06}.mp4" for number in range(count)]
    for path, file in zip(links, cycle(files), strict=False):
        _link(file.resolve(), path)
    return links


def copy_files(files: Sequence[Path], folder: Path, count: int) -> list[Path]:
    """Create `count` copies of the files in `folder`, in a cycle.

    A number is appended to each, so all contents differ and the frames stay the same.
    """
    folder.mkdir(parents=True)
    copies = [folder / f"{number:06}.mp4" for number in range(count)]
    for number, (path, file) in enumerate(zip(copies, cycle(files), strict=False)):
        copyfile(file, path)
        with path.open("ab") as copy:
            copy.write(struct.pack(">I4sQ", 16, b"free", number))  # a box that readers skip
    return copies


def know(files: Sequence[Path], links: Sequence[Path], store: headrace.IndexStore) -> None:
    """Store the indexes of all links; scans `files` only, as equal files have equal indexes."""
    for file in files:
        headrace.open_index(file.resolve(), store)
    for path, file in zip(links, islice(cycle(files), len(links)), strict=True):
        _link(store.entry(headrace.Source(file.resolve())), store.entry(headrace.Source(path)))


def _link(file: Path, path: Path) -> None:
    """Make a hard link, or a symbolic link across file systems."""
    try:
        os.link(file, path)
    except OSError:
        path.symlink_to(file)


def load(
    *,
    paths: Sequence[str],
    size: Sequence[int],
    batch_size: int,
    workers: int,
    warm_up_seconds: float,
    seconds: float | None,
    store: str | None = None,
    proxies: str | None = None,
    frames_per_burst: int | None = None,
    seed: int = 0,
    latency_ms: float = 0.0,
    megabytes_per_second: float | None = None,
    decodes: bool = True,
    has_checksum: bool = False,
    counts_files: bool = False,
    whole: Literal["epoch", "window"] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Open a loader and time its batches after the warm-up; return fields of a `Repeat`.

    Args:
        paths: Paths of the videos.
        size: (height, width) of the frames.
        batch_size: Frames in a batch.
        workers: Decoding threads.
        warm_up_seconds: Max seconds until the lookahead is full.
        seconds: Timed seconds; None: only open the loader.
        store: Folder of known indexes.
        proxies: Folder of proxies to read in place of the videos.
        frames_per_burst: Frames per burst; None: uniform frames.
        seed: Seed of the order.
        latency_ms: Latency of each request in the simulated network.
        megabytes_per_second: Its bandwidth; None with `latency_ms` 0: no network.
        decodes: Whether to decode frames; else they are uninitialized memory.
        has_checksum: Whether to return the `checksum` of the first batch, and `requests`.
        counts_files: Whether to count open files after each batch; costs about 1 µs per file.
        whole: Min timed span: an epoch without its first batch, or a lookahead window, because
            decoding comes in waves of that length.
        options: Options of the loader.
    """
    if not decodes:  # affects all later loaders of this process
        JobWorker.decode = _undecoded  # type: ignore[method-assign, assignment]
    network = Network(latency_ms, megabytes_per_second)
    sources: Sequence[Any] = paths if proxies is None else headrace.Proxies(proxies).all(paths)
    if latency_ms > 0 or megabytes_per_second is not None:
        sources = [SlowSource(Path(path), network=network) for path in paths]
    sampling: headrace.Sampler = headrace.UniformFrames(seed=seed)
    if frames_per_burst is not None:
        sampling = headrace.Bursts(frames_per_burst=frames_per_burst, lanes=batch_size, seed=seed)
    process, rss_before = psutil.Process(), rss_bytes()
    files_before, open_files = process.num_fds(), 0
    began = perf_counter()
    with headrace.FrameLoader(
        sources,
        batch_size=batch_size,
        size=(size[0], size[1]),
        sampling=sampling,
        num_threads=workers,
        index_store=None if store is None else headrace.IndexStore(Path(store)),
        **options,
    ) as loader:
        figures: dict[str, Any] = {"open_seconds": perf_counter() - began}
        if seconds is None:
            return figures

        def batches() -> Iterator[Sized]:
            nonlocal open_files
            for batch in chain.from_iterable(repeat(loader)):
                if has_checksum and "checksum" not in figures:
                    figures["checksum"] = zlib.crc32(batch.frames.numpy().tobytes())
                if counts_files:
                    open_files = max(open_files, process.num_fds())
                yield batch

        def count() -> dict[str, int]:
            return cost(loader) | ({"requests": network.requests} if has_checksum else {})

        delivery = Delivery(batches(), lambda: loader.lookahead, count)
        epoch_frames = batch_size * (len(loader) - 2) + 1  # its last batch may be short
        least = {"epoch": lambda: epoch_frames, "window": lambda: loader.lookahead}
        figures |= steady(
            delivery,
            seconds,
            warm_up_seconds=warm_up_seconds,
            least_frames=least.get(whole or "", int),
        )
        if counts_files:
            figures["open_files"] = open_files - files_before
        figures["memory_bytes"] = peak_rss_bytes() - rss_before
        assert decodes or not loader.statistics.frames_decoded
    return figures


def _undecoded(self: JobWorker, job: GopJob, *_: object) -> Decoded:
    return Decoded(frames={frame: self.shared.memory.take() for frame in job.frames})


class Network:
    """Simulated network shared by all files: latency per request, and bandwidth."""

    def __init__(self, latency_ms: float, megabytes_per_second: float | None) -> None:
        self._latency_seconds = latency_ms / 1e3
        self._seconds_per_byte = 1e-6 / megabytes_per_second if megabytes_per_second else 0.0
        self._free_at = 0.0
        self._lock = Lock()
        self.requests = 0

    def fetch(self, num_bytes: int) -> None:
        """Wait for a request of `num_bytes`; threads wait in parallel."""
        with self._lock:
            now = perf_counter()
            self._free_at = max(now, self._free_at) + num_bytes * self._seconds_per_byte
            ready = max(now + self._latency_seconds, self._free_at)
            self.requests += 1
        if ready > now:
            sleep(ready - now)


@dataclass(frozen=True)
class SlowSource(headrace.Source):
    """Video read over the simulated network; its index is the stored one of the file, if any."""

    network: Network = field(kw_only=True, compare=False, repr=False)

    def for_ffmpeg(self) -> Any:
        """Return a new file object, with its own block."""
        return SlowFile(self.path, self.network)


class SlowFile(io.FileIO):
    """File with one cached block; reading any other block is a request."""

    def __init__(self, path: Path, network: Network) -> None:
        super().__init__(str(path))
        self._network, self._block = network, -1
        self._size = os.fstat(self.fileno()).st_size

    def __del__(self) -> None:
        self.close()  # as PyAV does not

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the requested bytes up to the end of their block."""
        block, offset = divmod(self.tell(), BLOCK_BYTES)
        length = min(BLOCK_BYTES, self._size - block * BLOCK_BYTES)
        if block != self._block and offset < length:
            self._network.fetch(length)
            self._block = block
        wanted = BLOCK_BYTES if size is None or size < 0 else size
        return super().read(min(wanted, BLOCK_BYTES - offset))
