"""Adapters of the compared libraries, one file each, and their protocol.

Each library is used as its documentation recommends, all on the same cores. Importing an adapter
imports its library.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:  # workers may import an earlier headrace, which has it elsewhere
    from headrace.sampling.sampler import Sampler

CHUNK = 32
"""Frames per call, if a library lets the caller choose."""
Frames = NDArray[np.uint8]
"""uint8 [N, H, W, 3], RGB."""
Requests = NDArray[np.int64]
"""int64 [N, 2]: video and index of each frame of a batch."""


class Chunk(NamedTuple):
    """Consecutive frames of one file."""

    path_index: int
    first_index: int
    frames: Frames


class Delivery(NamedTuple):
    """Batches of one library, and their cost."""

    batches: Iterator[Any]
    """Each a `Chunk` for every frame in order, or `Frames` in request order for random frames."""
    lookahead: Callable[[], int] = int
    """Returns the number of frames to deliver before steady state; a loader may increase it."""
    cost: Callable[[], dict[str, int]] = dict
    """Frames `decoded`, `seeks` and `opens` so far, as far as the library counts them."""


@dataclass(frozen=True, kw_only=True)
class RandomAccess:
    """Endless batches of requests, the same for all libraries."""

    paths: Sequence[Path]
    size: tuple[int, int]
    workers: int
    batch_size: int
    clip: tuple[int, int] | None = None
    """(frames, stride) of the clips of a batch; None: single frames."""
    sampling: "Sampler"
    """Sampler of the requests."""
    requests: Callable[[], Iterator[Requests]]
    """Returns the batches, starting with the first."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further options of the library's loader."""


ReadFrames = Callable[[Sequence[int]], Sequence[Frames]]
"""Ascending distinct indices → one frame each, uint8 [H, W, 3]."""


class Adapter(Protocol):
    """Adapter module; some functions may be missing."""

    PACKAGES: Sequence[str]
    """Distributions whose versions are recorded."""

    def every_frame(
        self, paths: Sequence[Path], size: tuple[int, int], workers: int, **options: Any
    ) -> Delivery:
        """Return every frame of every file, in order within a file; files come in any order."""

    def decode(self, path: Path, size: tuple[int, int], **options: Any) -> Iterator[Frames]:
        """Yield the frames of one file in order, in chunks, on one thread.

        An adapter without `every_frame` has this function; each thread decodes its own file.
        """

    def random_access(self, task: RandomAccess) -> Delivery:
        """Return the batches of a task."""

    def reader(self, path: Path, size: tuple[int, int] | None = None) -> ReadFrames:
        """Open a file for single frames, on one thread; by default in their original size.

        An adapter without `random_access` has this function; each batch is grouped by file.
        """


def adapter(library: str) -> Adapter:
    """Import the adapter of a library."""
    return cast(Adapter, import_module(f"benchmarks.adapters.{library}"))


def every_frame(
    library: Adapter, paths: Sequence[Path], size: tuple[int, int], workers: int, **options: Any
) -> Delivery:
    """Return every frame of every file by the adapter's `every_frame`, or file by file.

    File by file, each thread decodes one file and then takes the next.
    """
    if hasattr(library, "every_frame"):
        return library.every_frame(paths, size, workers, **options)
    return Delivery(_on_threads(paths, workers, partial(library.decode, size=size, **options)))


def random_access(library: Adapter, task: RandomAccess) -> Delivery:
    """Return the batches of a task by the adapter's `random_access`, or grouped by file."""
    if hasattr(library, "random_access"):
        return library.random_access(task)
    return Delivery(grouped_by_file(task, library.reader))


def _on_threads(
    paths: Sequence[Path], workers: int, decode: Callable[[Path], Iterator[Frames]]
) -> Iterator[Chunk]:
    ready: Queue[Chunk | None] = Queue(maxsize=2 * workers)

    def work(path_index: int, path: Path) -> None:
        try:
            for chunk in numbered(path_index, decode(path)):
                ready.put(chunk)
        finally:
            ready.put(None)

    with ThreadPoolExecutor(workers) as pool:
        files = [pool.submit(work, number, path) for number, path in enumerate(paths)]
        unfinished = len(files)
        while unfinished:
            chunk = ready.get()
            if chunk is None:
                unfinished -= 1
            else:
                yield chunk
        for file in files:
            file.result()


def numbered(path_index: int, chunks: Iterable[Frames]) -> Iterator[Chunk]:
    """Yield the chunks of a file with the index of their first frame."""
    first_index = 0
    for frames in chunks:
        yield Chunk(path_index, first_index, frames)
        first_index += len(frames)


def in_chunks(pictures: Iterable[NDArray[Any]]) -> Iterator[Frames]:
    """Yield chunks of `CHUNK` frames from single frames."""
    remaining = iter(pictures)
    while frames := list(islice(remaining, CHUNK)):
        yield np.stack(frames)


def grouped_by_file(
    task: RandomAccess, open_file: Callable[[Path, tuple[int, int]], ReadFrames]
) -> Iterator[Frames]:
    """Yield each batch, read by one call per file; files are read on threads and stay open."""
    opened = cache(lambda video: open_file(task.paths[video], task.size))

    def fill(video: int, requests: Requests, out: Frames) -> None:
        positions = np.flatnonzero(requests[:, 0] == video)
        indices, inverse = np.unique(requests[positions, 1], return_inverse=True)
        frames = opened(video)(indices.tolist())
        for position, number in zip(positions, inverse, strict=True):
            out[position] = frames[number]

    with ThreadPoolExecutor(task.workers) as pool:
        for requests in task.requests():
            out = np.empty((len(requests), *task.size, 3), np.uint8)
            videos: Iterable[int] = np.unique(requests[:, 0]).tolist()
            list(pool.map(partial(fill, requests=requests, out=out), videos))
            yield out
