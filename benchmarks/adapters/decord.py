"""decord: one reader per file and thread, which scales while it decodes, frame by frame.

`next` took 2.5 ms of CPU time per 720p frame, `get_batch` of 32 frames 2.7 ms. Several decoding
threads in one reader were slower than several readers.

For random frames, readers stay open, and one call reads all frames of a file in a batch.
"""

from collections.abc import Iterator
from pathlib import Path

import decord

from benchmarks.adapters import Frames, ReadFrames, in_chunks

PACKAGES = ("decord",)


def decode(path: Path, size: tuple[int, int]) -> Iterator[Frames]:
    """Yield frames, with one decoding thread per reader."""
    reader = _opened(path, size)
    return in_chunks(reader.next().asnumpy() for _ in range(len(reader)))


def reader(path: Path, size: tuple[int, int] | None = None) -> ReadFrames:
    """Return a reader with one decoding thread."""
    opened = _opened(path, size or (-1, -1))
    return lambda indices: list(opened.get_batch(list(indices)).asnumpy())


def _opened(path: Path, size: tuple[int, int]) -> decord.VideoReader:
    return decord.VideoReader(str(path), width=size[1], height=size[0], num_threads=1)
