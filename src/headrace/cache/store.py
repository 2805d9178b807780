"""Interface of a store of entries, and the circuit breaker for a failing one."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from headrace.runtime.clock import Clock

Item = TypeVar("Item")


@dataclass(frozen=True)
class EntryInfo:
    """One entry of a store, without its bytes."""

    digest: str
    """Digest of its key, 64 hexadecimal digits."""
    size_bytes: int
    """Size in the store."""
    unused_seconds: float
    """Seconds since it was last read or written; a store may round them."""


@dataclass(frozen=True, kw_only=True)
class StoreState:
    """State of a store."""

    where: str
    """File or address, without passwords."""
    entries: int
    size_bytes: int
    """Size of all entries."""
    bound_bytes: int | None
    """Limit above which the least recently used entries are evicted; None: no limit."""
    hits: int | None = None
    """Look-ups that found an entry, since the store was created; None: not reported."""
    misses: int | None = None
    """Look-ups that found no entry."""
    notes: tuple[str, ...] = ()
    """Problems of its configuration, one line each."""


class Prunable(Protocol):
    """Entries that can be listed and removed. Raises CacheError if they cannot."""

    where: str
    """File, folder or address, without passwords."""

    def remove(self, digests: Sequence[str]) -> None:
        """Remove entries; missing ones are ignored."""

    def list_entries(self) -> Iterator[EntryInfo]:
        """Yield every entry without its bytes, in no particular order; other processes may change
        it meanwhile."""


class Store(Prunable, Protocol):
    """Stores bytes under digests. For one thread at a time, in the process that opened it.

    All methods except `close` open the store if needed, and raise CacheError if it cannot be
    reached, read or written.
    """

    max_entry_bytes: int
    """Maximum bytes of an entry."""

    def open(self) -> Sequence[str]:
        """Connect to the store; return problems of its configuration, one line each.

        Raises:
            ConfigError: the store is not headrace's, or needs a password.
        """

    def get(self, digests: Sequence[str], *, is_use: bool = True) -> dict[str, bytes]:
        """Return the existing entries.

        Args:
            digests: Digests of their keys.
            is_use: Whether this counts as a use; on a server it always does.
        """

    def put(self, entries: Mapping[str, bytes]) -> None:
        """Write entries; existing ones of the same digests are replaced."""

    def state(self) -> StoreState:
        """Return the current state."""

    def close(self) -> None:
        """Close the store; never fails. It may be used again."""


def groups_by_size(sized: Iterable[tuple[Item, int]], max_bytes: int) -> Iterator[list[Item]]:
    """Yield the items of (item, bytes) in order, in groups of up to `max_bytes`, or one item."""
    group: list[Item] = []
    size = 0
    for item, item_bytes in sized:
        if group and size + item_bytes > max_bytes:
            yield group
            group, size = [], 0
        group.append(item)
        size += item_bytes
    if group:
        yield group


def ignore_warning(warning: str) -> None:
    """Ignore a warning; `warnings` of the cache or store has it."""


FAILURES: Final = 3
"""Failures in a row before a store is paused: one may be a restart of the server."""
PAUSE_SECONDS: Final = 60.0
"""Seconds of a pause. An unresponsive server costs 2 seconds per try, for reading and for writing:
at most a fifteenth of the time."""


class CircuitBreaker:
    """Circuit breaker: pauses an operation after several failures in a row, then retries it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures = 0
        self._until_ns = 0

    @property
    def is_closed(self) -> bool:
        """Whether the operation may be tried."""
        return self._failures < FAILURES or self._clock.now_ns() >= self._until_ns

    def record_failure(self) -> None:
        """Count a failure."""
        self._failures += 1
        self._until_ns = self._clock.now_ns() + round(PAUSE_SECONDS * 1e9)

    def record_success(self) -> None:
        """Count a success."""
        self._failures = 0
