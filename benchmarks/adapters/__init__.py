"""The libraries that are compared: one file each, what it offers, and what most of them share.

Each is used as its documentation recommends, all on the same cores. Importing a file imports its
library.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:  # an earlier headrace, that a worker may hold this one against, has it elsewhere
    from headrace.sampling.sampler import Sampler

CHUNK = 32
"""Frames handed over at once, by the libraries that let the caller choose."""


class Chunk(NamedTuple):
    """Consecutive frames of one file."""

    path_index: int
    first_index: int
    frames: NDArray[np.uint8]
    """uint8 [N, H, W, 3], RGB."""


Requests = NDArray[np.int64]
"""int64 [N, 2]: video and index of each frame of a batch."""


@dataclass(frozen=True, kw_only=True)
class RandomAccess:
    """Batch after batch of the same requests for all libraries, without end."""

    paths: Sequence[Path]
    size: tuple[int, int]
    workers: int
    batch_size: int
    clip: tuple[int, int] | None = None
    """(frames, stride) of the clips that a batch is made of; None for single frames."""
    sampling: "Sampler"
    """What the requests are drawn by."""
    requests: Callable[[], Iterator[Requests]]
    """Begins to give the batches from the first one on."""
    memory_budget: str = "1GiB"
    """Of headrace, as the next two."""
    hold: Literal["rgb", "yuv420"] = "rgb"
    lookahead: int | None = None
    keeps_files: bool = False
    """Whether a DataLoader does."""


class Cost(NamedTuple):
    """What was decoded so far; None where the library does not count it."""

    decoded: int | None = None
    seeks: int | None = None
    opens: int | None = None


class Delivery(Protocol):
    """Batches, and what they cost."""

    warm_up: int
    """Frames to be delivered before a steady state is reached."""

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        """Yield the frames of each batch, uint8 [N, H, W, 3], in the order of its requests."""

    def cost(self) -> Cost:
        """Return what was decoded so far."""


class Adapter(Protocol):
    """A module of this package; it may lack one of the functions."""

    PACKAGES: Sequence[str]
    """Distributions whose versions decide the result."""

    def every_frame(
        self, paths: Sequence[Path], size: tuple[int, int], workers: int, **options: Any
    ) -> Iterable[Chunk]:
        """Every frame of every file; in order inside a file, files in any order.

        What it returns may have `decoded_frames`, where the library counts them.
        """

    def decode(
        self, path: Path, size: tuple[int, int], **options: Any
    ) -> Iterator[NDArray[np.uint8]]:
        """Yield the frames of one file, in order and in pieces, by one thread.

        In place of `every_frame`, where files are best shared out among threads.
        """

    def random_access(self, task: RandomAccess) -> Delivery:
        """Return what delivers the batches."""

    def frame_at(self, path: Path) -> "FrameAt":
        """Open a file for single frames, in their own size."""


FrameAt = Callable[[int], NDArray[np.uint8] | None]
"""Index of a frame → uint8 [H, W, 3], RGB; None where the library gives nothing."""


def every_frame(
    library: Adapter, paths: Sequence[Path], size: tuple[int, int], workers: int, **options: Any
) -> Iterable[Chunk]:
    """Every frame of every file, in the way of the library; see `Adapter.every_frame`.

    If it has none of its own: one file per thread, each thread taking the next file when it is
    done with one.
    """
    if hasattr(library, "every_frame"):
        return library.every_frame(paths, size, workers, **options)
    return _on_threads(paths, workers, partial(library.decode, size=size, **options))


def _on_threads(
    paths: Sequence[Path], workers: int, decode: Callable[[Path], Iterator[NDArray[np.uint8]]]
) -> Iterator[Chunk]:
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


def in_chunks(pictures: Iterable[NDArray[Any]]) -> Iterator[NDArray[np.uint8]]:
    """Yield frames that come one by one in pieces of `CHUNK`."""
    remaining = iter(pictures)
    while piece := list(islice(remaining, CHUNK)):
        yield np.stack(piece)


DecodeSome = Callable[[int, Sequence[int]], Sequence[NDArray[np.uint8]]]
"""Video, ascending different indices → a frame for each."""


class GroupedByFile:
    """Each batch is grouped by file, a file's frames in one call, files on as many threads."""

    warm_up = 0

    def __init__(self, task: RandomAccess, decode: DecodeSome) -> None:
        self._task = task
        self._decode = decode

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        """Yield the frames of each batch."""
        with ThreadPoolExecutor(self._task.workers) as pool:
            for requests in self._task.requests():
                out = np.empty((len(requests), *self._task.size, 3), np.uint8)
                videos: Iterable[int] = np.unique(requests[:, 0]).tolist()
                for _ in pool.map(lambda video, r=requests, o=out: self._fill(video, r, o), videos):
                    pass
                yield out

    def cost(self) -> Cost:
        """Return nothing: the libraries do not tell."""
        return Cost()

    def _fill(self, video: int, requests: Requests, out: NDArray[np.uint8]) -> None:
        places = np.flatnonzero(requests[:, 0] == video)
        indices, which = np.unique(requests[places, 1], return_inverse=True)
        frames = self._decode(video, indices.tolist())
        for place, k in zip(places, which, strict=True):
            out[place] = frames[k]
