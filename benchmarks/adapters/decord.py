"""decord: a reader per file and thread that scales while it decodes, frame after frame.

`next` took 2.5 ms of CPU per 720p frame and `get_batch` of 32 frames 2.7 ms; several decoding
threads in one reader were slower than several readers.

For random frames readers are kept, and a batch asks each file once for all its frames.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import decord
import numpy as np
from numpy.typing import NDArray

from benchmarks import adapters

PACKAGES = ("decord",)


def frame_at(path: Path) -> adapters.FrameAt:
    """One thread."""
    reader = decord.VideoReader(str(path), num_threads=1)
    return lambda index: reader[index].asnumpy()


def decode(path: Path, size: tuple[int, int]) -> Iterator[NDArray[np.uint8]]:
    """One decoding thread per reader."""
    reader = decord.VideoReader(str(path), width=size[1], height=size[0], num_threads=1)
    return adapters.in_chunks(reader.next().asnumpy() for _ in range(len(reader)))


def random_access(task: adapters.RandomAccess) -> adapters.GroupedByFile:
    """One decoding thread for each reader."""
    height, width = task.size

    @cache
    def reader(video: int) -> decord.VideoReader:
        path = str(task.paths[video])
        return decord.VideoReader(path, width=width, height=height, num_threads=1)

    def decode(video: int, indices: Sequence[int]) -> Sequence[NDArray[np.uint8]]:
        return list(reader(video).get_batch(list(indices)).asnumpy())

    return adapters.GroupedByFile(task, decode)
