"""What a way to random frames offers, and the grouping that most of them share."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:  # an earlier headrace, that a worker may hold this one against, has it elsewhere
    from headrace.sampling.sampler import Sampler

Requests = NDArray[np.int64]
"""int64 [N, 2]: video and index of each frame of a batch."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """What every way is asked for: batch after batch of the same requests, without end."""

    paths: Sequence[Path]
    size: tuple[int, int]
    workers: int
    batch_size: int
    clip: tuple[int, int] | None = None
    """(frames, stride) of the clips that a batch is made of; None for single frames."""
    memory_budget: str = "1GiB"
    """For the ways that have one."""
    hold: Literal["rgb", "yuv420"] = "rgb"
    """How the ways that hold frames do so."""
    sampling: "Sampler"
    """What the requests are drawn by."""
    requests: Callable[[], Iterator[Requests]]
    """Begins to give the batches from the first one on."""


class Cost(NamedTuple):
    """What a way says it cost so far; None where it does not tell."""

    decoded: int | None = None
    seeks: int | None = None
    opens: int | None = None


class Way(Protocol):
    """A module of this package; importing it imports the library."""

    PACKAGES: Sequence[str]

    def deliver(self, task: Task) -> "Delivery":
        """Return what gives uint8 [N, H, W, 3] for each batch of requests."""


class Delivery(Protocol):
    """Batches, and what they cost."""

    warm_up: int
    """Frames to be delivered before a steady state is reached."""

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        """Yield the frames of each batch, in the order of its requests."""

    def cost(self) -> Cost:
        """Return what was decoded so far."""


Decode = Callable[[int, Sequence[int]], Sequence[NDArray[np.uint8]]]
"""Video, ascending different indices → a frame for each."""


class GroupedByFile:
    """Each batch is grouped by file, a file's frames in one call, files on as many threads."""

    warm_up = 0

    def __init__(self, task: Task, decode: Decode) -> None:
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
