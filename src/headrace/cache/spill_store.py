"""Bounded store of packed frames on a local disk, shared by the processes of one machine.

Files: `spill_folder.py`. Every read verifies a checksum. Measured against LMDB, which a truncated
file kills by SIGBUS, and SQLite, which writes at a quarter of the speed: docs/guides/cache.md.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from headrace.cache.key import WRONG_CHECKSUM
from headrace.cache.spill_folder import (
    MAX_PAYLOAD_BYTES,
    MAX_RECORDS,
    RECORD,
    Segment,
    SpillFolder,
    checksum,
)
from headrace.cache.spill_table import FrameTable
from headrace.cache.store import CircuitBreaker, ignore_warning
from headrace.errors import ConfigError, reason_of
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.fork_safety import ForkSafeLock
from headrace.runtime.posix import file_lock
from headrace.units import check_integers

MIN_BUDGET: Final = 1 << 20
"""Bytes of the smallest segment."""
REFRESH_SECONDS: Final = 0.5
"""Seconds between checks for frames of other processes."""
IN_USE_SECONDS: Final = 600.0
"""Seconds after its last use in which a segment is not evicted for new frames. A shuffled epoch
reads a whole store in a fraction of this time, each frame once: replacing frames would only cost
writes (MinIO in Mohan et al., "Analyzing and Mitigating Data Stalls", VLDB 2021)."""

_SEGMENTS: Final = 64
"""Segments of a full store."""
_TOUCH_SECONDS: Final = 60.0
_LOCK_SECONDS: Final = 2.0
"""Seconds to wait for another writing process, which holds the lock for milliseconds."""
_BATCH_BYTES: Final = 64 << 20
_BATCH: Final = 512
"""Max bytes and frames written at once; the system takes 1,024 buffers at a time."""


@dataclass(frozen=True, kw_only=True)
class SpillState:
    """State of a store. Counters are frames, of this process, since it opened the store."""

    where: str
    frames: int
    """Frames in the store."""
    streams: int
    segments: int
    size_bytes: int
    """Bytes of all segments on disk."""
    budget_bytes: int
    unused_seconds: float
    """Seconds since the last use of the next segment to evict; 0 without segments."""
    hits: int
    misses: int
    """Reads of frames that are not in the store, without damaged ones."""
    damaged: int
    """Frames and index records that failed their checksum or were truncated."""
    written: int
    evicted: int
    """Frames of the segments that this process evicted."""
    refused: Mapping[str, int]
    """Reason → frames that were not written."""


class SpillStore:
    """Packed frames on a local disk, shared by threads, workers, ranks and runs of one machine.

        with SpillStore.open("/scratch/spill", budget=50 << 30) as store:
            store.write(key, {0: packed})
            store.read(key, 0)

    A stream is a text that names source, track, frame format and conversion; payloads are any
    bytes, neither interpreted nor executed. Other processes find a written frame within half a
    second. Damage, a full disk or a removed folder cost frames, which are counted, with one warning
    of each kind. Thread-safe, and usable after a fork.

    `budget` bounds the files. Each process has its own budget: of two that write, the one with the
    smaller budget evicts down to it. The least recently used segment is evicted first. Within the
    budget, a segment used in the last ten minutes is not evicted: new frames are refused.
    """

    @classmethod
    def open(
        cls,
        folder: str | os.PathLike[str],
        *,
        budget: int | None,
        new_budget: int | None = None,
        on_warning: Callable[[str], None] = ignore_warning,
        clock: Clock = SYSTEM_CLOCK,
    ) -> Self:
        """Open a store, or create it; reads its indexes, 40 bytes per frame.

        Args:
            folder: A spill store, or a missing or empty folder on a disk of this machine.
            budget: Max bytes on disk, at least `MIN_BUDGET`; None: the last budget of the store.
            new_budget: Budget of a new store if `budget` is None; None: the store must exist.
            on_warning: Called with each warning, one line, at most one of each kind.
            clock: Clock for times of use.

        Raises:
            ConfigError: the budget is below one segment, or the folder is not a spill store, has a
                newer format, is on a network file system or cannot be created.
        """
        check_integers(1, budget=budget)
        if budget is not None and budget < MIN_BUDGET:
            raise ConfigError(
                f"the budget of a spill store must be at least {MIN_BUDGET:,} bytes, one segment, "
                f"got {budget:,}"
            )
        path = Path(folder).expanduser().absolute()
        files = SpillFolder(path, budget=budget, new_budget=new_budget)
        store = cls(files, on_warning=on_warning, clock=clock)
        if files.is_marker_damaged:
            store._warn("marker", f"the spill store {path} had a damaged marker; it was rewritten")
        store._refresh(now=True)
        return store

    def __init__(
        self, folder: SpillFolder, *, on_warning: Callable[[str], None], clock: Clock
    ) -> None:
        """Use an open folder: see `open`."""
        self.where = str(folder.path)
        """Path of the folder."""
        self.warnings: list[str] = []
        """Warnings, at most one of each kind."""
        self._folder = folder
        self._segment_bytes = max(MIN_BUDGET, folder.budget // _SEGMENTS)
        self._on_warning = on_warning
        self._clock = clock
        self._breaker = CircuitBreaker(clock)
        self._table_lock, self._write_lock = ForkSafeLock(), ForkSafeLock()
        self._table = FrameTable()
        self._touch_ns: dict[int, int] = {}
        """Segment → time from which its next use is recorded."""
        self._segments: dict[int, Segment] = {}
        self._refresh_ns = 0
        self._turn = 0
        self._counts: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._warned: set[str] = set()

    @property
    def takes_frames(self) -> bool:
        """Whether to pack frames for `write`; False for a minute after three failures in a row."""
        return self._breaker.is_closed

    def stored(self, stream: str, count: int) -> NDArray[np.bool_]:
        """Return bool [count]: whether frames [0, count) of a stream are in the store.

        Cost: 10 ns per frame, from memory; reads the folder at most twice a second.
        """
        self._refresh()
        with self._table_lock:
            return self._table.mask(_digest(stream), count)

    def read(self, stream: str, frame: int) -> bytes | None:
        """Return a frame's payload; None: missing or damaged."""
        self._refresh()
        digest = _digest(stream)
        with self._table_lock:
            location = self._table.find(digest, frame)
            self._counts["misses"] += location is None
        if location is None:
            return None
        segment, reason = location.segment, WRONG_CHECKSUM
        try:
            payload = self._folder.read(segment, location.offset, location.length)
            is_complete = len(payload) == location.length
            if is_complete and checksum(digest, frame, payload) == location.checksum:
                self._record_hit(segment)
                return payload
        except FileNotFoundError:  # evicted by another process, or removed
            with self._table_lock:
                self._counts["misses"] += 1
                self._table.discard_segment(segment)
            return None
        except OSError as error:
            reason = f"cannot be read: {reason_of(error)}"
        else:
            with suppress(OSError):  # a read-only folder
                self._folder.erase(segment, location.record)
        with self._table_lock:
            self._table.discard(digest, frame, location)
        self._count_damage(1, f"a frame that {reason}")
        return None

    def write(self, stream: str, frames: Mapping[int, bytes]) -> None:
        """Write the missing frames of a stream; disk errors are counted, not raised.

        Empty frames, and frames larger than half the budget, are refused.
        """
        digest = _digest(stream)
        limit = min(MAX_PAYLOAD_BYTES, self._folder.budget // 2)
        pending = {frame: data for frame, data in frames.items() if 0 < len(data) <= limit}
        self._refuse(f"empty, or above {limit:,} bytes", len(frames) - len(pending))
        reason = ""
        try:
            with self._write_lock:
                if not self._breaker.is_closed:
                    self._refused["paused after failures"] += len(pending)
                    return
                with file_lock(self._folder.lock_path, timeout_seconds=_LOCK_SECONDS) as is_held:
                    if is_held:
                        turn = self._folder.next_turn()
                        # Nothing to load if this process was the last to write.
                        self._refresh(now=turn != self._turn + 1)
                        self._turn = turn
                        with self._table_lock:
                            for frame in [f for f in pending if self._table.find(digest, f)]:
                                del pending[frame]
                    else:
                        reason = "another process holds the lock"
                    while pending and not reason:
                        reason = self._append(digest, pending)
        except OSError as error:
            reason = reason_of(error)
        if reason:
            self._breaker.record_failure()
            self._refuse(reason, len(pending))
        else:
            self._breaker.record_success()

    def state(self) -> SpillState:
        """Return the current state."""
        self._refresh(now=True)
        with self._table_lock:
            used = [segment.used_seconds for segment in self._segments.values()]
            oldest = min(used, default=self._clock.wall_seconds())
            frames, streams = self._table.count()
            return SpillState(
                where=self.where,
                frames=frames,
                streams=streams,
                segments=len(self._segments),
                size_bytes=sum(segment.size_bytes for segment in self._segments.values()),
                budget_bytes=self._folder.budget,
                unused_seconds=max(0.0, self._clock.wall_seconds() - oldest),
                **{name: self._counts[name] for name in _COUNTS},
                refused=dict(self._refused),
            )

    def close(self) -> None:
        """Free the table in memory; never fails. The store may be used again."""
        with self._table_lock:
            self._table, self._segments = FrameTable(), {}
            self._refresh_ns = 0

    def __reduce__(self) -> Any:
        reopen = partial(SpillStore.open, budget=None, new_budget=self._folder.budget)
        return partial(reopen, on_warning=self._on_warning), (self.where,)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _refresh(self, *, now: bool = False) -> None:
        """Load new frames of other processes, and discard removed ones."""
        if not now and self._clock.now_ns() < self._refresh_ns:
            return
        with self._table_lock:
            try:
                self._segments = self._folder.segments()
            except OSError as error:
                self._segments = {}
                reason = reason_of(error)
                self._warn("folder", f"cannot read the spill store {self.where}: {reason}")
            for number, records_read in self._table.loaded().items():
                index_bytes = self._segments.get(number, Segment()).index_bytes
                if index_bytes // RECORD.itemsize < records_read:
                    self._table.discard_segment(number)
            loaded = self._table.loaded()
            for number, segment in self._segments.items():
                start = loaded.get(number, 0)
                if segment.index_bytes // RECORD.itemsize > start:
                    with suppress(OSError):  # removed meanwhile, or read at the next refresh
                        records = self._folder.records(number, segment, start)
                        damaged = self._table.add(number, start, records)
                        self._count_damage(damaged, "an index with damaged records")
            self._refresh_ns = self._clock.now_ns() + round(REFRESH_SECONDS * 1e9)

    def _append(self, digest: bytes, pending: dict[int, bytes]) -> str:
        """Write the frames of `pending` that fit into a segment; remove them from it.

        Returns the reason none was written; empty: some were.
        """
        number = max(self._segments, default=0)
        active = self._segments.get(number, Segment())
        room = self._segment_bytes - active.size_bytes
        is_full = active.index_bytes >= MAX_RECORDS * RECORD.itemsize
        if not number or is_full or room < len(next(iter(pending.values()))) + RECORD.itemsize:
            # Numbers ascend, and are never reused.
            number = max(number + 1, int(self._clock.wall_seconds() * 1e9))
            room = self._segment_bytes
        batch: dict[int, bytes] = {}
        size = 0
        for frame, payload in pending.items():
            needed = size + len(payload) + RECORD.itemsize
            if batch and (needed > min(room, _BATCH_BYTES) or len(batch) == _BATCH):
                break
            batch[frame], size = payload, needed
        if not self._make_room(size):
            return "full"
        now = self._clock.wall_seconds()
        first, records, segment = self._folder.append(number, digest, batch, now)
        for frame in batch:
            del pending[frame]
        with self._table_lock:
            self._counts["written"] += len(batch)
            if first == self._table.loaded().get(number, 0):
                self._table.add(number, first, records)
                self._segments[number] = segment
            else:  # files were removed or cut by hand
                self._refresh(now=True)
        return ""

    def _make_room(self, needed: int) -> bool:
        """Evict segments until `needed` bytes fit; return whether they do."""
        total = sum(segment.size_bytes for segment in self._segments.values())
        budget, now = self._folder.budget, self._clock.wall_seconds()
        is_over_budget = total > budget  # another process has a larger budget
        by_use = sorted(self._segments.items(), key=lambda item: item[1].used_seconds)
        for number, segment in by_use:
            is_in_use = 0 <= now - segment.used_seconds < IN_USE_SECONDS
            if total + needed <= budget or (is_in_use and not is_over_budget):
                break
            self._folder.remove(number)
            total -= segment.size_bytes
            with self._table_lock:
                self._counts["evicted"] += segment.index_bytes // RECORD.itemsize
                self._segments.pop(number, None)
                self._table.discard_segment(number)
        return total + needed <= budget

    def _record_hit(self, number: int) -> None:
        now, wall_seconds = self._clock.now_ns(), self._clock.wall_seconds()
        with self._table_lock:
            self._counts["hits"] += 1
            if now < self._touch_ns.get(number, now):
                return
            self._touch_ns[number] = now + round(_TOUCH_SECONDS * 1e9)
            if number in self._segments:
                segment = self._segments[number]
                self._segments[number] = segment._replace(used_seconds=wall_seconds)
        self._folder.note_use(number, wall_seconds)

    def _count_damage(self, count: int, damage: str) -> None:
        if count:
            with self._table_lock:
                self._counts["damaged"] += count
            self._warn(
                "damage",
                f"the spill store {self.where} has {damage}; damaged frames are decoded again, "
                f"headrace cache verify --spill {self.where} lists them",
            )

    def _refuse(self, reason: str, count: int) -> None:
        if count:
            with self._table_lock:
                self._refused[reason] += count
            self._warn(
                reason,
                f"the spill store {self.where} refuses frames: {reason}; the run continues and "
                "decodes them when needed",
            )

    def _warn(self, kind: str, text: str) -> None:
        with self._table_lock:
            if kind in self._warned:
                return
            self._warned.add(kind)
            self.warnings.append(text)
        self._on_warning(text)


_COUNTS: Final = ("hits", "misses", "damaged", "written", "evicted")


def _digest(stream: str) -> bytes:
    return hashlib.blake2b(stream.encode(), digest_size=16).digest()
