"""What a store is: bytes under digests, wherever they lie."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Kept:
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

    def kept(self) -> Iterator[Kept]:
        """Yield every entry without its bytes, in no order; others may change it meanwhile."""

    def state(self) -> StoreState:
        """Return how it is now."""

    def close(self) -> None:
        """Give back what it holds; never fails. It may be used again."""
