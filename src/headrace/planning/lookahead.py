"""From requests in the order of the model to GOP jobs: each GOP once for all that soon need it."""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError

_GOLDEN = (5**0.5 - 1) / 2
"""Its multiples, modulo 1, fill the unit interval evenly from the first one on."""
_WIDENING = 4
"""Times by which a window that begins narrow widens each time as many requests passed as it began
with. Less, and GOPs are decoded again and again until it is wide; more, and the batches that come
next wait for later ones."""


class GopLookup(Protocol):
    """What says which frames are decoded together, such as a `Population`."""

    def gop_of(self, frame_ids: NDArray[np.int64], /) -> NDArray[np.int64]:
        """Return the id of the GOP each frame belongs to; same shape."""
        ...


@dataclass(frozen=True, kw_only=True)
class GopJob:
    """Frames of one GOP that are decoded together."""

    gop: int
    """The GOP's id in the population."""
    frames: tuple[int, ...]
    """Frame ids, ascending, none twice."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PlannedBatch:
    """One batch of requests, what is decoded for it, and what is let go after it."""

    requests: NDArray[np.int64]
    """The frame ids that were asked for, as they came: int64 [N], or [N, T] of clips."""
    jobs: tuple[GopJob, ...]
    """What is decoded for this batch, and with it for later ones; in the order of need."""
    released: tuple[int, ...]
    """Frame ids that were held, and are not needed after this batch."""


def look_ahead(
    batches: Iterable[NDArray[np.int64]],
    population: GopLookup,
    *,
    lookahead: int,
    capacity: int,
    first: int | None = None,
) -> Iterator[PlannedBatch]:
    """Plan batches of requests so that a GOP is decoded once for all of them in a window.

    When a frame is due and not held, its GOP is decoded, and with it every frame of that GOP that
    is requested in this slot or the next `lookahead - 1`; those are held until their last request.
    Requests are neither changed nor moved: whatever the window, the batches are the same.
    At first all GOPs come up together, and so they would again a window later, and for ever: the
    work would come in waves. Therefore the first decoding of a GOP takes only a part of the window,
    another part for each, unless the window holds all there is. A window that begins narrow has
    little decoded for later batches at first, so that the first batch does not wait for it; a GOP
    is then decoded some times more until its part is over, and the work is as even behind it.
    `sampling.costs.lookahead_cost` tells the cost. Reads `lookahead` requests ahead, through the
    borders of epochs where `batches` goes on; some microseconds and 200 bytes a request.

    Args:
        batches: Frame ids, int64 [N] or [N, T]; may be without end.
        population: Where each GOP begins.
        lookahead: Requests (single frames) in the window; 1 is naive random access.
        capacity: Different frames that may be held for later batches; the frames of the batch at
            hand come on top. What would be too much is decoded again later, the last needed first.
        first: Requests in the window at its very beginning; it widens as requests pass. None: it
            is `lookahead` wide from there.

    Raises:
        ConfigError: `lookahead` is below 1, or `capacity` below 0.
    """
    if lookahead < 1 or capacity < 0:
        raise ConfigError(
            f"lookahead must be >= 1 and capacity >= 0, got {lookahead} and {capacity}"
        )
    window = _Window(batches, population, lookahead, first or lookahead)
    held = _Held(capacity)
    for number, requests in enumerate(window.batches()):
        held.begin(number)
        jobs = []
        for due in window.requests(requests.size):
            if due.is_served:
                continue
            frames = held.serve(window.for_the_same_decoding(due))
            if frames:
                jobs.append(GopJob(gop=due.gop, frames=frames))
            window.forget_served(due.gop)
        yield PlannedBatch(requests=requests, jobs=tuple(jobs), released=held.release())


@dataclass(slots=True)
class _Request:
    """One slot that wants one frame."""

    frame: int
    gop: int
    batch: int
    place: int
    """How many requests come before it."""
    is_served: bool = False
    """The frame is held until this slot's batch, or will be."""


class _Window:
    """The requests that the planner sees."""

    def __init__(
        self,
        batches: Iterable[NDArray[np.int64]],
        population: GopLookup,
        lookahead: int,
        first: int,
    ) -> None:
        self._unread = iter(batches)
        self._population = population
        self._lookahead = lookahead
        self._first = self._width = min(first, lookahead)
        """How many requests it holds by now."""
        self._passed = 0
        self._batches_read = 0
        self._requests_read = 0
        self._first_ends: dict[int, float] = {}
        """GOP that was decoded → the place where its first part of the window ends."""
        self._read_batches: deque[NDArray[np.int64]] = deque()
        self._outside: deque[_Request] = deque()
        self._inside: deque[_Request] = deque()
        self.waiting: defaultdict[int, list[_Request]] = defaultdict(list)
        """GOP → the requests inside the window that nothing serves yet, in order."""

    def batches(self) -> Iterator[NDArray[np.int64]]:
        """Yield one batch after the other, as they came."""
        while self._read_batches or self._read():
            yield self._read_batches.popleft()

    def requests(self, count: int) -> Iterator[_Request]:
        """Yield the next `count` requests, each when the window begins with it."""
        for _ in range(count):
            while len(self._inside) < self._width and (self._outside or self._read()):
                request = self._outside.popleft()
                self._inside.append(request)
                self.waiting[request.gop].append(request)
            yield self._inside.popleft()
            self._passed += 1
            if self._passed % self._first == 0:
                self._width = min(self._lookahead, self._width * _WIDENING)

    def for_the_same_decoding(self, due: _Request) -> list[_Request]:
        """Return the requests, in order, that a decoding for `due` is to serve with it."""
        requests = self.waiting[due.gop]
        if due.gop not in self._first_ends:
            if not self._outside and not self._read():
                return requests
            part = (len(self._first_ends) + 1) * _GOLDEN % 1
            self._first_ends[due.gop] = due.place + self._lookahead * part
        end = self._first_ends[due.gop]
        if due.place > end:
            return requests
        return [request for request in requests if request.place <= end]

    def forget_served(self, gop: int) -> None:
        """Let go of the requests for `gop` that are served."""
        left = [request for request in self.waiting.pop(gop) if not request.is_served]
        if left:
            self.waiting[gop] = left

    def _read(self) -> bool:
        batch = next(self._unread, None)
        if batch is None:
            return False
        self._read_batches.append(batch)
        frames = batch.ravel()
        gops = self._population.gop_of(frames)
        self._outside.extend(
            _Request(frame, gop, self._batches_read, self._requests_read + place)
            for place, (frame, gop) in enumerate(zip(frames.tolist(), gops.tolist(), strict=True))
        )
        self._requests_read += len(frames)
        self._batches_read += 1
        return True


class _Held:
    """The frames that are held, and until which batch."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._now = 0
        self._until: dict[int, int] = {}
        self._last_of: defaultdict[int, set[int]] = defaultdict(set)
        self._later = 0
        """How many are held beyond the batch at hand."""

    def begin(self, batch: int) -> None:
        """Go to the next batch."""
        self._now = batch
        self._later -= len(self._last_of[batch])

    def serve(self, requests: list[_Request]) -> tuple[int, ...]:
        """Serve requests as far as there is room; return the frames to decode for them."""
        new = set()
        for request in requests:
            is_held = request.frame in self._until
            request.is_served = self._keep(request.frame, request.batch)
            if request.is_served and not is_held:
                new.add(request.frame)
        return tuple(sorted(new))

    def release(self) -> tuple[int, ...]:
        """Let go of the frames whose last batch this was, and return them."""
        frames = tuple(self._last_of.pop(self._now))
        for frame in frames:
            del self._until[frame]
        return frames

    def _keep(self, frame: int, batch: int) -> bool:
        """Hold a frame until `batch`, if there is room."""
        until = self._until.get(frame, -1)
        if until >= batch:
            return True
        if batch > self._now and until <= self._now:
            if self._later >= self._capacity:
                return False
            self._later += 1
        self._last_of[until].discard(frame)
        self._last_of[batch].add(frame)
        self._until[frame] = batch
        return True
