"""Keys, results and stores that tests of caches are made with."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from headrace.cache.entry import Arrays
from headrace.cache.key import ChunkKey
from headrace.cache.result_cache import Cache
from headrace.cache.store import EntryInfo, StoreState
from headrace.errors import CacheError

GROUPS: dict[str, Any] = {
    "selection": {"pts": [0, 512, 1024]},
    "decode": {"backend": "pyav"},
    "preprocess": {"crop": 224, "mean": [0.5, 0.25]},
    "model": {"name": "resnet18", "weights": "sha256:11"},
    "numerics": {"precision": "float32"},
}


def key(chunk: int | None = None, **changed: Any) -> ChunkKey:
    """A key; those of other chunks differ, and those with something changed."""
    numbered = {} if chunk is None else {"selection": {"chunk": chunk}}
    return ChunkKey(**{"kind": "features 1", "content": "sha256:00"} | GROUPS | numbered | changed)


def arrays(chunk: int = 0, *, width: int = 16) -> Arrays:
    """A result: features float32 [4, width] and pts int64 [4], other ones for other chunks."""
    features = np.arange(4 * width, dtype=np.float32).reshape(4, width) + chunk
    return {"features": features, "pts": np.arange(4, dtype=np.int64) * 512 + chunk}


def same(found: Arrays, expected: Arrays) -> bool:
    """Whether names, types, shapes and all numbers are the same."""
    return list(found) == list(expected) and all(
        array.dtype == expected[name].dtype
        and array.shape == expected[name].shape
        and array.tobytes() == expected[name].tobytes()
        for name, array in found.items()
    )


def results(chunks: Iterable[int] = range(8), *, width: int = 16) -> dict[ChunkKey, Arrays]:
    """The results of these chunks by their keys."""
    return {key(k): arrays(k, width=width) for k in chunks}


def found(cache: Cache, chunks: Iterable[int] = range(8), *, width: int = 16) -> list[int]:
    """The chunks of which a cache gives a result, each checked to be its own."""
    wanted = results(chunks, width=width)
    got = cache.get(wanted)
    assert all(same(got[each], wanted[each]) for each in got)
    return [k for k in chunks if key(k) in got]


def serve(cache: Cache, rounds: int = 2) -> Cache:
    """What a run does: take what is there, put what is not; all it gets is right."""
    for _ in range(rounds):
        there = found(cache)
        cache.put(results(k for k in range(8) if k not in there))
    return cache


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

    def kept(self) -> Iterator[EntryInfo]:
        self._ask("kept")
        for k, (digest, content) in enumerate(self.entries.items()):
            yield EntryInfo(digest, len(content), float(k))

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
