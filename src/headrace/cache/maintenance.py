"""Maintenance of stores of results and of spill stores: verify, prune, find entries."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Final

from headrace.cache.key import (
    WRONG_CHECKSUM,
    CacheEntry,
    ChunkKey,
    KeyDifference,
    decode,
    differences,
)
from headrace.cache.spill_folder import DAMAGED, SpillFolder, checksum
from headrace.cache.store import EntryInfo, Prunable, Store, groups_by_size
from headrace.errors import CacheError, ConfigError, file_errors, reason_of
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.posix import file_lock

Progress = Callable[[int, int], None]
"""Called with the number of finished entries and their total."""

_MIN_DIGITS: Final = 6
"""Min digits of a digest in a look-up."""
_AT_ONCE_BYTES: Final = 16 << 20
"""Bytes of entries read together."""


def ignore_progress(done: int, of: int) -> None:
    """Ignore progress."""


@dataclass(frozen=True)
class CorruptEntry:
    """A damaged entry."""

    digest: str
    """Digest in the store."""
    reason: str
    """Kind of damage."""


@dataclass(frozen=True)
class Verification:
    """Result of a verification."""

    where: str
    entries: int
    """Number of checked entries."""
    damaged: tuple[CorruptEntry, ...]
    is_repaired: bool
    """Whether damaged entries were removed."""


@dataclass(frozen=True)
class Pruning:
    """Result of pruning, or of its dry run."""

    where: str
    removed: int
    removed_bytes: int
    left: int
    left_bytes: int
    is_dry_run: bool
    """Whether the removal was only simulated."""


@dataclass(frozen=True)
class Nearest:
    """Entry whose key differs least from a missing key, and the differences."""

    key: ChunkKey
    differences: tuple[KeyDifference, ...]


def verify(
    store: Store, *, repair: bool = False, on_progress: Progress = ignore_progress
) -> Verification:
    """Check every entry against its checksum and key; reads the whole store.

    Args:
        store: Store to check.
        repair: Whether to remove damaged entries.
        on_progress: Called after each group of entries.

    Raises:
        CacheError: the store cannot be read.
    """
    damaged, checked = [], 0
    for digest, result in _decoded(store, on_progress):
        checked += 1
        if isinstance(result, CacheError):
            damaged.append(CorruptEntry(digest, str(result)))
    if repair and damaged:
        store.remove([entry.digest for entry in damaged])
    return Verification(store.where, checked, tuple(damaged), repair)


def prune(
    store: Prunable,
    *,
    to_bytes: int | None = None,
    older_than_seconds: float | None = None,
    dry_run: bool = False,
) -> Pruning:
    """Remove the least recently used entries until the rest fits, or entries unused for a time.

    Args:
        store: Store to prune.
        to_bytes: Max bytes of the remaining entries; 0 removes everything.
        older_than_seconds: Seconds without use after which an entry is removed. With both, either
            limit suffices.
        dry_run: Whether to remove nothing.

    Raises:
        ConfigError: neither limit is given.
        CacheError: the store cannot be read or written, or does not record the times of use.
    """
    if to_bytes is None and older_than_seconds is None:
        raise ConfigError("give to_bytes, older_than_seconds or both")
    entries = list(store.list_entries())
    if to_bytes != 0 and any(isnan(entry.unused_seconds) for entry in entries):
        raise CacheError(
            f"{store.where} does not record when entries were last used, because its policy is "
            "LFU; remove all entries, or set maxmemory-policy allkeys-lru"
        )
    removed = _select_removed(entries, to_bytes, older_than_seconds)
    if not dry_run:
        store.remove([entry.digest for entry in removed])
    size = sum(entry.size_bytes for entry in removed)
    left = sum(entry.size_bytes for entry in entries) - size
    return Pruning(store.where, len(removed), size, len(entries) - len(removed), left, dry_run)


def find(store: Store, prefix: str) -> CacheEntry | None:
    """Return the entry whose digest starts with `prefix`; None: not found.

    Raises:
        ConfigError: `prefix` is malformed, or several entries start with it.
        CacheError: the entry is damaged, or the store cannot be read.
    """
    prefix = prefix.strip().lower()
    if not _MIN_DIGITS <= len(prefix) <= 64 or set(prefix) - set("0123456789abcdef"):
        raise ConfigError(
            f"a key must be {_MIN_DIGITS} to 64 hexadecimal digits, or a file that holds it as "
            f"JSON, got {prefix!r}"
        )
    digests = [prefix]
    if len(prefix) < 64:
        digests = [
            entry.digest for entry in store.list_entries() if entry.digest.startswith(prefix)
        ]
    if len(digests) > 1:
        raise ConfigError(
            f"{len(digests)} keys in {store.where} start with {prefix}; give more digits"
        )
    for digest, content in store.get(digests, is_use=False).items():
        try:
            return decode(content, digest)
        except CacheError as error:
            raise CacheError(
                f"the entry {digest} in {store.where} {error}; headrace cache verify --repair "
                "removes it"
            ) from error
    return None


def nearest(
    store: Store, key: ChunkKey, *, on_progress: Progress = ignore_progress
) -> Nearest | None:
    """Return the entry whose key differs least from `key`; reads the whole store.

    None if the store has no intact entry. Raises as `verify` does.
    """
    best: Nearest | None = None
    for _, entry in _decoded(store, on_progress):
        if isinstance(entry, CacheEntry):
            differing = differences(key, entry.key)
            if best is None or len(differing) < len(best.differences):
                best = Nearest(entry.key, tuple(differing))
    return best


def _select_removed(
    entries: Sequence[EntryInfo], to_bytes: int | None, older_than_seconds: float | None
) -> list[EntryInfo]:
    size = sum(entry.size_bytes for entry in entries)
    removed = []
    for entry in sorted(entries, key=lambda entry: entry.unused_seconds, reverse=True):
        is_old = older_than_seconds is not None and entry.unused_seconds >= older_than_seconds
        if is_old or (to_bytes is not None and size > to_bytes):
            removed.append(entry)
            size -= entry.size_bytes
    return removed


def _decoded(store: Store, on_progress: Progress) -> Iterator[tuple[str, CacheEntry | CacheError]]:
    """Yield every entry, or its damage; entries removed meanwhile are skipped."""
    entries, done = list(store.list_entries()), 0
    sized = ((entry.digest, entry.size_bytes) for entry in entries)
    for group in groups_by_size(sized, _AT_ONCE_BYTES):
        for digest, content in store.get(group, is_use=False).items():
            try:
                yield digest, decode(content, digest)
            except CacheError as error:
                yield digest, error
        done += len(group)
        on_progress(done, len(entries))


_LOCK_SECONDS: Final = 10.0
_REMEDY: Final = "the owner of the folder may read and write it"


class SpillSegments:
    """Segments of a spill store, for `headrace.cache.maintenance.prune`."""

    def __init__(self, folder: SpillFolder, clock: Clock = SYSTEM_CLOCK) -> None:
        """Use an open folder."""
        self.where = str(folder.path)
        self._folder = folder
        self._clock = clock

    def list_entries(self) -> Iterator[EntryInfo]:
        """Yield every segment: see `Prunable.list_entries`."""
        now = self._clock.wall_seconds()
        with file_errors(f"cannot read {self.where}", _REMEDY, CacheError):
            segments = self._folder.segments()
        for number, segment in segments.items():
            unused = max(0.0, now - segment.used_seconds)
            yield EntryInfo(f"{number:016x}", segment.size_bytes, unused)

    def remove(self, digests: Sequence[str]) -> None:
        """Remove segments; runs that use them decode their frames again."""
        with (
            file_errors(f"cannot remove from {self.where}", _REMEDY, CacheError),
            file_lock(self._folder.lock_path, timeout_seconds=_LOCK_SECONDS) as is_held,
        ):
            if not is_held:
                raise CacheError(f"{self.where} is locked by a writing process; try again")
            self._folder.next_turn()
            for digest in digests:
                self._folder.remove(int(digest, 16))

    def verify(
        self, *, repair: bool = False, on_progress: Progress = ignore_progress
    ) -> Verification:
        """Check every frame against its checksum; reads the whole store.

        Args:
            repair: Whether to remove damaged frames.
            on_progress: Called after each segment with the checked segments and their number.

        Raises:
            CacheError: the folder cannot be read or repaired.
        """
        damaged: list[CorruptEntry] = []
        checked = 0
        entries = list(self.list_entries())
        for done, entry in enumerate(entries, 1):
            number = int(entry.digest, 16)
            try:
                for record, reason in self._records(number):
                    checked += 1
                    if reason:
                        damaged.append(CorruptEntry(f"{entry.digest}.{record}", reason))
                        if repair:
                            with file_errors(f"cannot repair {self.where}", _REMEDY, CacheError):
                                self._folder.erase(number, record)
            except FileNotFoundError:  # evicted meanwhile
                pass
            except OSError as error:
                damaged.append(CorruptEntry(entry.digest, f"cannot be read: {reason_of(error)}"))
                if repair:
                    self.remove([entry.digest])
            on_progress(done, len(entries))
        return Verification(self.where, checked, tuple(damaged), repair)

    def _records(self, number: int) -> Iterator[tuple[int, str]]:
        """Yield number and damage of each record that is not erased; empty text: intact."""
        segment = self._folder.segments().get(number)
        if segment is None:
            return
        for k, record in enumerate(self._folder.records(number, segment, 0)):
            _, offset, frame, length, expected, _ = record.item()
            if length == DAMAGED:
                yield k, "has a damaged record, or was truncated"
            elif length:
                payload = self._folder.read(number, offset, length)
                is_intact = checksum(record["stream"].tobytes(), frame, payload) == expected
                yield k, "" if is_intact else WRONG_CHECKSUM
