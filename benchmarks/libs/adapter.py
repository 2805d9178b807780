"""What an adapter offers, and the threads that most of them share."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

CHUNK = 32
"""Frames handed over at once, by the libraries that let the caller choose."""


class Chunk(NamedTuple):
    """Consecutive frames of one file."""

    path_index: int
    first_index: int
    frames: NDArray[np.uint8]
    """uint8 [N, H, W, 3], RGB."""


class Adapter(Protocol):
    """A module of this package; importing it imports the library."""

    PACKAGES: Sequence[str]
    """Distributions whose versions decide the result."""

    def every_frame(
        self, paths: Sequence[Path], size: tuple[int, int], workers: int
    ) -> Iterable[Chunk]:
        """Every frame of every file; in order inside a file, files in any order.

        What it returns may have `decoded_frames`, where the library counts them.
        """


Decode = Callable[[Path], Iterator[NDArray[np.uint8]]]
"""Gives the frames of one file, in order and in pieces."""


def files_on_threads(paths: Sequence[Path], workers: int, decode: Decode) -> Iterator[Chunk]:
    """One file per thread, each thread taking the next file when it is done with one."""
    ready: Queue[Chunk | None] = Queue(maxsize=2 * workers)

    def work(path_index: int, path: Path) -> None:
        try:
            first_index = 0
            for frames in decode(path):
                ready.put(Chunk(path_index, first_index, frames))
                first_index += len(frames)
        finally:
            ready.put(None)

    with ThreadPoolExecutor(workers) as pool:
        files = [pool.submit(work, *numbered) for numbered in enumerate(paths)]
        unfinished = len(files)
        while unfinished:
            chunk = ready.get()
            if chunk is None:
                unfinished -= 1
            else:
                yield chunk
        for file in files:
            file.result()
