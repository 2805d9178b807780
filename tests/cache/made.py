"""Keys, results and stores for tests of caches."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from headrace.cache.cache_url import Cache
from headrace.cache.key import Arrays, ChunkKey
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
    """Return a key, different for each chunk, with some fields changed."""
    selection = {} if chunk is None else {"selection": {"chunk": chunk}}
    return ChunkKey(**{"kind": "features 1", "content": "sha256:00"} | GROUPS | selection | changed)


def arrays(chunk: int = 0, *, width: int = 16) -> Arrays:
    """Return a result, different for each chunk: features float32 [4, width], pts int64 [4]."""
    features = np.arange(4 * width, dtype=np.float32).reshape(4, width) + chunk
    return {"features": features, "pts": np.arange(4, dtype=np.int64) * 512 + chunk}


def same(actual: Arrays, expected: Arrays) -> bool:
    """Return whether names, dtypes, shapes and values are equal."""
    return list(actual) == list(expected) and all(
        array.dtype == expected[name].dtype
        and array.shape == expected[name].shape
        and array.tobytes() == expected[name].tobytes()
        for name, array in actual.items()
    )


def results(chunks: Iterable[int] = range(8), *, width: int = 16) -> dict[ChunkKey, Arrays]:
    """Return key → result of each chunk."""
    return {key(k): arrays(k, width=width) for k in chunks}


def cached(cache: Cache, chunks: Iterable[int] = range(8), *, width: int = 16) -> list[int]:
    """Return the chunks that are in a cache, after a check of their results."""
    expected = results(chunks, width=width)
    hits = cache.get(expected)
    assert all(same(arrays, expected[key]) for key, arrays in hits.items())
    return [k for k in chunks if key(k) in hits]


def serve(cache: Cache, rounds: int = 2) -> Cache:
    """Use a cache as a run does: read the cached chunks, and store the others."""
    for _ in range(rounds):
        hits = cached(cache)
        cache.put(results(k for k in range(8) if k not in hits))
    return cache


class MemoryStore:
    """Store in memory; methods in `broken` fail."""

    where = "broken://store"

    def __init__(self) -> None:
        self.entries: dict[str, bytes] = {}
        self.broken: set[str] = set()
        self.notes: list[str] = []
        self.calls: list[str] = []
        self.max_entry_bytes = 1 << 20

    def open(self) -> Sequence[str]:
        self._call("open")
        return self.notes

    def get(self, digests: Sequence[str], *, is_use: bool = True) -> dict[str, bytes]:
        self._call("get")
        return {digest: self.entries[digest] for digest in digests if digest in self.entries}

    def put(self, entries: Mapping[str, bytes]) -> None:
        self._call("put")
        self.entries.update(entries)

    def remove(self, digests: Sequence[str]) -> None:
        self._call("remove")
        for digest in digests:
            self.entries.pop(digest, None)

    def list_entries(self) -> Iterator[EntryInfo]:
        self._call("list_entries")
        for k, (digest, content) in enumerate(self.entries.items()):
            yield EntryInfo(digest, len(content), float(k))

    def state(self) -> StoreState:
        size = sum(map(len, self.entries.values()))
        return StoreState(
            where=self.where, entries=len(self.entries), size_bytes=size, bound_bytes=None
        )

    def close(self) -> None:
        self.calls.append("close")

    def _call(self, method: str) -> None:
        self.calls.append(method)
        if method in self.broken:
            raise CacheError(f"{self.where} cannot {method}")
