"""A store in memory that fails when it is told to."""

from collections.abc import Iterator, Mapping, Sequence

from headrace.cache.store import Kept, StoreState
from headrace.errors import CacheError


class BrokenStore:
    """Keeps entries in memory; while `broken` names what it cannot do, that fails."""

    where = "broken://store"

    def __init__(self) -> None:
        self.entries: dict[str, bytes] = {}
        self.broken: set[str] = set()
        self.notes: list[str] = []
        self.asked: list[str] = []
        self.max_entry_bytes = 1 << 20

    def open(self) -> Sequence[str]:
        self._ask("open")
        return self.notes

    def get(self, digests: Sequence[str], *, is_use: bool = True) -> dict[str, bytes]:
        self._ask("get")
        return {each: self.entries[each] for each in digests if each in self.entries}

    def put(self, entries: Mapping[str, bytes]) -> None:
        self._ask("put")
        self.entries.update(entries)

    def remove(self, digests: Sequence[str]) -> None:
        self._ask("remove")
        for digest in digests:
            self.entries.pop(digest, None)

    def kept(self) -> Iterator[Kept]:
        self._ask("kept")
        for k, (digest, content) in enumerate(self.entries.items()):
            yield Kept(digest, len(content), float(k))

    def state(self) -> StoreState:
        size = sum(map(len, self.entries.values()))
        return StoreState(
            where=self.where, entries=len(self.entries), size_bytes=size, bound_bytes=None
        )

    def close(self) -> None:
        self.asked.append("close")

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if what in self.broken:
            raise CacheError(f"{self.where} cannot {what}")
