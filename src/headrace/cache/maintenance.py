"""What is done to a store as a whole: every entry checked, some removed, one looked up."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Final

from headrace.cache.entry import CacheEntry, decode
from headrace.cache.key import ChunkKey, KeyDifference, differences
from headrace.cache.store import EntryInfo, Store
from headrace.errors import CacheError, ConfigError

Progress = Callable[[int, int], None]
"""Is told how many entries of how many are done."""

SHORTEST: Final = 6
"""Digits of a digest that are enough to look for it."""
_AT_ONCE_BYTES: Final = 16 << 20
"""Of entries that are read together."""


def unseen(done: int, of: int) -> None:
    """Show progress to nobody."""


@dataclass(frozen=True)
class CorruptEntry:
    """An entry that is not what was written."""

    digest: str
    """What it lies under."""
    reason: str
    """What is wrong with it."""


@dataclass(frozen=True)
class Verification:
    """What became of checking every entry."""

    where: str
    entries: int
    """How many were checked."""
    damaged: tuple[CorruptEntry, ...]
    is_repaired: bool
    """Whether the damaged ones were removed."""


@dataclass(frozen=True)
class Pruning:
    """What was removed, or would be."""

    where: str
    removed: int
    removed_bytes: int
    left: int
    left_bytes: int
    is_dry_run: bool
    """Whether nothing was removed."""


@dataclass(frozen=True)
class Nearest:
    """The entry whose key differs least from one that is not there: why that is a miss."""

    key: ChunkKey
    differences: tuple[KeyDifference, ...]


def verify(store: Store, *, repair: bool = False, on_progress: Progress = unseen) -> Verification:
    """Read every entry and hold it against its checksum and key; reads the whole store.

    Args:
        store: What is checked.
        repair: Whether damaged entries are removed.
        on_progress: Is told how far it is.

    Raises:
        CacheError: the store cannot be read.
    """
    damaged, checked = [], 0
    for digest, found in _decoded(store, on_progress):
        checked += 1
        if isinstance(found, CacheError):
            damaged.append(CorruptEntry(digest, str(found)))
    if repair and damaged:
        store.remove([each.digest for each in damaged])
    return Verification(store.where, checked, tuple(damaged), repair)


def prune(
    store: Store,
    *,
    to_bytes: int | None = None,
    older_than_seconds: float | None = None,
    dry_run: bool = False,
) -> Pruning:
    """Remove entries: those not used for longest until the rest fits, or those not used since.

    Args:
        store: What they are removed from.
        to_bytes: What all that is left takes at most; 0 removes everything.
        older_than_seconds: Since when those that go were not used. Both: either is enough.
        dry_run: Whether nothing is removed.

    Raises:
        ConfigError: neither is given.
        CacheError: the store cannot be read or written, or does not tell when entries were used.
    """
    if to_bytes is None and older_than_seconds is None:
        raise ConfigError("say what is to go: to how many bytes, or older than what")
    kept = list(store.kept())
    if to_bytes != 0 and any(isnan(each.unused_seconds) for each in kept):
        raise CacheError(
            f"{store.where} does not tell when entries were used, as its policy counts uses; "
            "remove all, or choose allkeys-lru there"
        )
    gone = _going(kept, to_bytes, older_than_seconds)
    if not dry_run:
        store.remove([each.digest for each in gone])
    size = sum(each.size_bytes for each in gone)
    left = sum(each.size_bytes for each in kept) - size
    return Pruning(store.where, len(gone), size, len(kept) - len(gone), left, dry_run)


def find(store: Store, beginning: str) -> CacheEntry | None:
    """Return the entry whose digest begins so; None where there is none.

    Raises:
        ConfigError: it is no beginning of a digest, or of several in the store.
        CacheError: the entry is damaged, or the store cannot be read.
    """
    beginning = beginning.strip().lower()
    if not SHORTEST <= len(beginning) <= 64 or set(beginning) - set("0123456789abcdef"):
        raise ConfigError(
            f"a key is looked up by {SHORTEST} to 64 hexadecimal digits, or by a file that holds "
            f"it as JSON; got {beginning!r}"
        )
    whole = [beginning]
    if len(beginning) < 64:
        whole = [each.digest for each in store.kept() if each.digest.startswith(beginning)]
    if len(whole) > 1:
        raise ConfigError(
            f"{len(whole)} keys in {store.where} begin with {beginning}; give more digits"
        )
    found = store.get(whole, is_use=False)
    for digest, content in found.items():
        try:
            return decode(content, digest)
        except CacheError as error:
            raise CacheError(
                f"the entry {digest} in {store.where} {error}; headrace cache verify --repair "
                "removes it"
            ) from error
    return None


def nearest(store: Store, key: ChunkKey, *, on_progress: Progress = unseen) -> Nearest | None:
    """Return the entry whose key differs least from `key`; reads the whole store.

    None where there is no whole entry. Raises as `verify` does.
    """
    best: Nearest | None = None
    for _, found in _decoded(store, on_progress):
        if isinstance(found, CacheEntry):
            differing = differences(key, found.key)
            if best is None or len(differing) < len(best.differences):
                best = Nearest(found.key, tuple(differing))
    return best


def _going(
    kept: Sequence[EntryInfo], to_bytes: int | None, older_than_seconds: float | None
) -> list[EntryInfo]:
    left = sum(each.size_bytes for each in kept)
    gone = []
    for each in sorted(kept, key=lambda one: one.unused_seconds, reverse=True):
        is_old = older_than_seconds is not None and each.unused_seconds >= older_than_seconds
        if is_old or (to_bytes is not None and left > to_bytes):
            gone.append(each)
            left -= each.size_bytes
    return gone


def _decoded(store: Store, on_progress: Progress) -> Iterator[tuple[str, CacheEntry | CacheError]]:
    """Every entry that is still there when it is its turn, or what is wrong with it."""
    kept, done = list(store.kept()), 0
    for group in _groups(kept):
        for digest, content in store.get(group, is_use=False).items():
            try:
                yield digest, decode(content, digest)
            except CacheError as error:
                yield digest, error
        done += len(group)
        on_progress(done, len(kept))


def _groups(kept: Sequence[EntryInfo]) -> Iterator[list[str]]:
    group: list[str] = []
    size = 0
    for each in kept:
        if group and size + each.size_bytes > _AT_ONCE_BYTES:
            yield group
            group, size = [], 0
        group.append(each.digest)
        size += each.size_bytes
    if group:
        yield group
