"""decord: a reader per file and thread that scales while it decodes, frame after frame.

`next` took 2.5 ms of CPU per 720p frame and `get_batch` of 32 frames 2.7 ms; several decoding
threads in one reader were slower than several readers.

For random frames, readers stay open, and a batch reads all its frames of a file in one call.
"""

from collections.abc import Iterator
from pathlib import Path

import decord

from benchmarks.adapters import Frames, ReadFrames, in_chunks

PACKAGES = ("decord",)


def decode(path: Path, size: tuple[int, int]) -> Iterator[Frames]:
    """Yield frames, with one decoding thread per reader."""
    opened = _opened(path, size)
    return in_chunks(opened.next().asnumpy() for _ in range(len(opened)))


def reader(path: Path, size: tuple[int, int] | None = None) -> ReadFrames:
    """Return a reader with one decoding thread."""
    opened = _opened(path, size or (-1, -1))
    return lambda indices: list(opened.get_batch(list(indices)).asnumpy())


def _opened(path: Path, size: tuple[int, int]) -> decord.VideoReader:
    return decord.VideoReader(str(path), width=size[1], height=size[0], num_threads=1)
