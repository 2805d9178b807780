"""Where the values of a pipeline come from: sources that can be woken, several merged into one."""

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from headrace.errors import ConfigError
from headrace.runtime.waiter import Waiter

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Feed(Generic[T]):
    """A source that waits, for a pace or for a network, by the waiter it is given."""

    read: Callable[[Waiter], Iterable[T]]
    """Best a generator: called, read and closed in a thread of its own, once in each run. What it
    waits with the waiter counts as starved, not as busy, and ends when the run does: then the
    waiter raises, which must go through."""


@dataclass(frozen=True, kw_only=True)
class Merged:
    """Several sources as one flow, in the order their values come; an item says which it is from.

    Each is read in a thread of its own. The flow ends when all have ended.
    """

    feeds: Sequence[Feed[Any] | Iterable[Any]]
    """An item's `source` counts them from 0."""
    on_error: Literal["raise", "end"] = "raise"
    """What a source that fails does: the run fails; or only that source is over, and its error
    comes as an item that was dropped, with the cause "source failed"."""

    def __post_init__(self) -> None:
        if not self.feeds:
            raise ConfigError("one source or more are needed to merge them, got none")
        if self.on_error not in ("raise", "end"):
            raise ConfigError(f"on_error must be 'raise' or 'end', got {self.on_error!r}")


AnySource = Feed[Any] | Merged | Iterable[Any]


def merged(source: AnySource) -> Merged:
    """Return any source as the feeds it consists of."""
    return source if isinstance(source, Merged) else Merged(feeds=(source,))


def values_of(feed: Feed[T] | Iterable[T], waiter: Waiter) -> Generator[T, None, None]:
    """Yield its values; closing this closes it. All it raises comes from the first `next` on."""
    yield from feed.read(waiter) if isinstance(feed, Feed) else feed
