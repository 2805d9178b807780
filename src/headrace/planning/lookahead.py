"""Lookahead planner: GOP jobs for requests in delivery order, each GOP once per window."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError

_GOLDEN = (5**0.5 - 1) / 2
"""Golden ratio conjugate; the first n of its multiples, modulo 1, are evenly spread for any n."""
_WIDENING = 4
"""Factor by which a narrow window widens each time its initial number of requests has passed. With
a smaller one, GOPs are decoded several times until the window is wide; with a larger one, early
batches wait for frames of later ones."""


class GopLookup(Protocol):
    """Lookup of GOP ids by frame ids, for example a `Population`."""

    def gop_of(self, frame_ids: NDArray[np.int64], /) -> NDArray[np.int64]:
        """Return the GOP id of each frame, with the same shape."""
        ...


class StoredFrames(Protocol):
    """Frames on a disk, which need not be decoded."""

    def has(self, frame: int, /) -> bool:
        """Return whether a frame is stored, or a planned job will store it."""
        ...

    def plan(self, gop: int, /) -> bool:
        """Return whether the next job decodes the whole GOP, and stores it."""
        ...


@dataclass(frozen=True, kw_only=True)
class GopJob:
    """Frames of one GOP that are decoded together."""

    gop: int
    """The GOP's id in the population."""
    frames: tuple[int, ...]
    """Frame ids, strictly ascending."""
    due: frozenset[int]
    """Frame ids that only the job's batch needs; the other frames wait for later batches."""
    is_whole: bool = False
    """Whether all frames of the GOP are decoded and stored on the disk."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PlannedBatch:
    """One batch of requests, its decode jobs, and the frames that are released after it."""

    requests: NDArray[np.int64]
    """Requested frame ids, in order: int64 [N], or [N, T] for clips."""
    jobs: tuple[GopJob, ...]
    """Decode jobs due with this batch, in the order of its requests; they also serve later
    batches."""
    waiting: tuple[int, ...]
    """Requested frame ids that are not due only here: they also wait for later batches, were
    decoded for earlier ones, or are stored. In the order of requests."""
    released: tuple[int, ...]
    """Held frame ids that no later batch needs."""


def look_ahead(
    batches: Iterable[NDArray[np.int64]],
    population: GopLookup,
    *,
    lookahead: int,
    capacity: int,
    first: int | None = None,
    limits: Callable[[], tuple[int, int]] | None = None,
    stored: StoredFrames | None = None,
    unstored_batches: int = 0,
) -> Iterator[PlannedBatch]:
    """Plan decode jobs for batches: each GOP is decoded once per window of requests.

    When a frame is due and not held, its GOP is decoded: all frames of the GOP that this request or
    the next `lookahead - 1` requests ask for. They are held until their last request. Requests are
    neither changed nor reordered, so batches do not depend on the window.

    Without a countermeasure, all GOPs would be decoded at the start, and all again one window
    later, in waves. So the first decode of a GOP covers only a part of the window, a different part
    for each GOP, unless the window has all requests. With `first`, the window starts narrow, so
    that the first batch does not wait for frames of later ones; GOPs are then decoded a few more
    times until the window is wide.

    Reads `lookahead` requests ahead, across epochs if `batches` continues. Takes a few
    microseconds and 200 bytes per request; `sampling.decode_cost.lookahead_cost` computes the
    decode cost.

    Args:
        batches: Frame ids, int64 [N] or [N, T]; may be infinite.
        population: Lookup of the GOP of each frame.
        lookahead: Requests (single frames) in the window; 1 is naive random access.
        capacity: Max distinct frames held for later batches, besides the current batch. Excess
            frames are dropped, the last needed first, and decoded again later.
        first: Requests in the window at the start; it widens as requests pass. None: `lookahead`.
        limits: Returns (lookahead, capacity) for every batch, if they change. None: constant.
        stored: Frames on a disk, which are read instead of decoded. None: no disk.
        unstored_batches: Number of first batches whose jobs store nothing, so that they do not wait
            for whole GOPs.

    Raises:
        ConfigError: `lookahead` is below 1, or `capacity` below 0.
    """
    if lookahead < 1 or capacity < 0:
        raise ConfigError(
            f"lookahead must be >= 1 and capacity >= 0, got {lookahead} and {capacity}"
        )
    window = _Window(
        unread=iter(batches),
        population=population,
        lookahead=lookahead,
        first=min(first or lookahead, lookahead),
    )
    held = _HeldFrames(capacity)
    for number, requests in enumerate(window.batches()):
        if limits is not None:
            window.lookahead, held.capacity = limits()
        held.start(number)
        may_store = number >= unstored_batches
        yield _plan_batch(requests, window, held, stored, may_store=may_store)


def _plan_batch(
    requests: NDArray[np.int64],
    window: "_Window",
    held: "_HeldFrames",
    stored: StoredFrames | None,
    *,
    may_store: bool,
) -> PlannedBatch:
    """Plan the batch that `held` has started."""
    jobs, decoded, waiting = [], set[int](), dict[int, None]()
    for due in window.requests(requests.size):
        if not due.is_served and stored is not None and stored.has(due.frame):
            held.serve([due])
            window.remove_served(due.gop)
        if not due.is_served:
            job = held.serve(window.requests_to_serve(due))
            if job:
                frames = tuple(sorted(job))
                due_frames = frozenset(frame for frame, is_due in job.items() if is_due)
                is_whole = may_store and stored is not None and stored.plan(due.gop)
                jobs.append(GopJob(gop=due.gop, frames=frames, due=due_frames, is_whole=is_whole))
                decoded |= due_frames
            window.remove_served(due.gop)
        if due.frame not in decoded:
            waiting[due.frame] = None
    return PlannedBatch(
        requests=requests, jobs=tuple(jobs), waiting=tuple(waiting), released=held.release()
    )


@dataclass(slots=True)
class _Request:
    """Request of one frame."""

    frame: int
    gop: int
    batch: int
    position: int
    """Number of earlier requests."""
    is_served: bool = False
    """Whether a planned decode or the disk provides the frame for the request's batch."""


@dataclass(kw_only=True, eq=False)
class _Window:
    """Requests in the planner's window."""

    unread: Iterator[NDArray[np.int64]]
    population: GopLookup
    lookahead: int
    """Final size of the window, in requests."""
    first: int
    """Initial size of the window, in requests."""
    waiting: defaultdict[int, list[_Request]] = field(default_factory=lambda: defaultdict(list))
    """GOP → unserved requests inside the window, in order."""
    _passed: int = 0
    _batches_read: int = 0
    _requests_read: int = 0
    _first_ends: dict[int, float] = field(default_factory=dict)
    """Decoded GOP → position up to which its first decode serves requests."""
    _read_batches: deque[NDArray[np.int64]] = field(default_factory=deque)
    _outside: deque[_Request] = field(default_factory=deque)
    _inside: deque[_Request] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self._width = self.first
        """Current size of the window, in requests."""

    def batches(self) -> Iterator[NDArray[np.int64]]:
        """Yield the batches in order."""
        while self._read_batches or self._read():
            yield self._read_batches.popleft()

    def requests(self, count: int) -> Iterator[_Request]:
        """Yield the next `count` requests, each at the time when it is the window's first."""
        for _ in range(count):
            while len(self._inside) < self._width and (self._outside or self._read()):
                request = self._outside.popleft()
                self._inside.append(request)
                self.waiting[request.gop].append(request)
            yield self._inside.popleft()
            self._passed += 1
            if self._passed % self.first == 0:
                self._width = min(self.lookahead, self._width * _WIDENING)

    def requests_to_serve(self, due: _Request) -> list[_Request]:
        """Return the requests that one decode serves together with `due`, in order."""
        requests = self.waiting[due.gop]
        if due.gop not in self._first_ends:
            if not self._outside and not self._read():
                return requests
            part = (len(self._first_ends) + 1) * _GOLDEN % 1
            self._first_ends[due.gop] = due.position + self.lookahead * part
        end = self._first_ends[due.gop]
        if due.position > end:
            return requests
        return [request for request in requests if request.position <= end]

    def remove_served(self, gop: int) -> None:
        """Remove the served requests of a GOP."""
        unserved = [request for request in self.waiting.pop(gop) if not request.is_served]
        if unserved:
            self.waiting[gop] = unserved

    def _read(self) -> bool:
        batch = next(self.unread, None)
        if batch is None:
            return False
        self._read_batches.append(batch)
        frames = batch.ravel()
        gops = self.population.gop_of(frames)
        self._outside.extend(
            _Request(frame, gop, self._batches_read, self._requests_read + offset)
            for offset, (frame, gop) in enumerate(zip(frames.tolist(), gops.tolist(), strict=True))
        )
        self._requests_read += len(frames)
        self._batches_read += 1
        return True


class _HeldFrames:
    """Frames that are held, each until its last batch."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._now = 0
        self._until: dict[int, int] = {}
        self._last_of: defaultdict[int, set[int]] = defaultdict(set)
        self._later = 0
        """Frames held for later batches."""

    def start(self, batch: int) -> None:
        """Start a batch."""
        self._now = batch
        self._later -= len(self._last_of[batch])

    def serve(self, requests: list[_Request]) -> dict[int, bool]:
        """Serve requests, up to the capacity.

        Returns:
            Frames to decode → whether only the current batch needs the frame.
        """
        new = set[int]()
        for request in requests:
            is_held = request.frame in self._until
            request.is_served = self._hold(request.frame, request.batch)
            if request.is_served and not is_held:
                new.add(request.frame)
        return {frame: self._until[frame] == self._now for frame in new}

    def release(self) -> tuple[int, ...]:
        """Release and return the frames whose last batch is the current one."""
        frames = tuple(self._last_of.pop(self._now))
        for frame in frames:
            del self._until[frame]
        return frames

    def _hold(self, frame: int, batch: int) -> bool:
        """Hold a frame until `batch`, if the capacity allows; return whether it is held."""
        until = self._until.get(frame, -1)
        if until >= batch:
            return True
        if batch > self._now and until <= self._now:
            if self._later >= self.capacity:
                return False
            self._later += 1
        self._last_of[until].discard(frame)
        self._last_of[batch].add(frame)
        self._until[frame] = batch
        return True
