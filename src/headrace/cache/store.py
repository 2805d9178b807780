"""What keeps entries, what is counted of them, and when one that fails is left alone."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from headrace.runtime.clock import Clock


@dataclass(frozen=True)
class EntryInfo:
    """One entry of a store, without its bytes."""

    digest: str
    """Of its key, 64 hexadecimal digits."""
    size_bytes: int
    """What it takes in the store."""
    unused_seconds: float
    """Since it was last read or written; a store may count in steps."""


@dataclass(frozen=True, kw_only=True)
class StoreState:
    """How a store is at the moment it is asked."""

    where: str
    """The file or address, without passwords."""
    entries: int
    size_bytes: int
    """What the entries take."""
    bound_bytes: int | None
    """Above it entries go, those first that were not used for longest; None: no bound."""
    hits: int | None = None
    """Entries that were asked for and there, since the store was made; None: not told."""
    misses: int | None = None
    """Entries that were asked for and not there."""
    notes: tuple[str, ...] = ()
    """What is wrong with how it is set up, one line each."""


class Store(Protocol):
    """Keeps bytes under digests. For one thread at a time, in the process that opened it.

    All but `close` raise CacheError where the store cannot be reached, read or written, and open it
    first where that was not done yet.
    """

    where: str
    """The file or address, without passwords."""
    max_entry_bytes: int
    """A longer entry cannot be kept."""

    def open(self) -> Sequence[str]:
        """Reach it; return what is wrong with how it is set up, one line each.

        Raises:
            ConfigError: what was asked for is no store of ours, or wants a password.
        """

    def get(self, digests: Sequence[str], *, is_use: bool = True) -> dict[str, bytes]:
        """Return those entries that are there.

        Args:
            digests: Of their keys.
            is_use: Whether they count as used now; a server cannot help it.
        """

    def put(self, entries: Mapping[str, bytes]) -> None:
        """Keep entries; what was there under the same digests is replaced."""

    def remove(self, digests: Sequence[str]) -> None:
        """Remove those that are there."""

    def kept(self) -> Iterator[EntryInfo]:
        """Yield every entry without its bytes, in no order; others may change it meanwhile."""

    def state(self) -> StoreState:
        """Return how it is now."""

    def close(self) -> None:
        """Give back what it holds; never fails. It may be used again."""


@dataclass(kw_only=True)
class CacheCounters:
    """How a cache served so far: hits + misses = results that were asked for."""

    hits: int = 0
    """Results that came from the cache."""
    misses: int = 0
    """Results that did not, for whatever cause."""
    stored: int = 0
    """Results that were kept."""
    unstored: int = 0
    """Results that were not: the store failed, is full, or rests after failures."""
    too_large: int = 0
    """Of these, results above what the store takes."""
    damaged: int = 0
    """Entries that were not what was written; also counted as misses."""
    errors: int = 0
    """Failures of the store, whatever was asked of it."""
    read_bytes: int = 0
    """Of hits."""
    written_bytes: int = 0
    """Of what was stored."""


FAILURES: Final = 3
"""In a row, before a store is left alone: one may be a server that was started anew."""
REST_SECONDS: Final = 60.0
"""For how long. A server that does not answer costs 2 seconds a try, for reading and for writing: a
fifteenth of the time at most."""


class CircuitBreaker:
    """Leaves something alone for a while after several failures, then tries it once more."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures = 0
        self._until_ns = 0

    @property
    def is_over(self) -> bool:
        """Whether it may be tried."""
        return self._failures < FAILURES or self._clock.now_ns() >= self._until_ns

    def failed(self) -> None:
        """Note a failure."""
        self._failures += 1
        self._until_ns = self._clock.now_ns() + round(REST_SECONDS * 1e9)

    def worked(self) -> None:
        """Note that it works."""
        self._failures = 0
