"""Cache of results: failures of its store cost time and never change a result."""

from collections.abc import Callable, Iterable, Mapping
from typing import Self, TypeVar

from headrace.cache.entry import Arrays, CacheEntry, decode, encode
from headrace.cache.key import ChunkKey
from headrace.cache.store import CacheCounters, CircuitBreaker, Store
from headrace.errors import CacheError, ConfigError, HeadraceError
from headrace.runtime.clock import SYSTEM_CLOCK, Clock

ResultT = TypeVar("ResultT")


def ignore_warning(warning: str) -> None:
    """Ignore a warning; `Cache.warnings` has it."""


class Cache:
    """Results of chunks, by the key of their inputs.

        with open_cache("sqlite") as cache:
            results = cache.get(keys)
            cache.put({key: compute(key) for key in keys if key not in results})

    A store that is down, full, slow or damaged causes misses, which are counted, and one warning.
    After three failures in a row it is not used for a minute; reading and writing pause separately,
    so that a full store is still read. For one thread at a time, in the process that opened it.
    """

    def __init__(
        self,
        store: Store | None,
        *,
        on_warning: Callable[[str], None] = ignore_warning,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Open a store, which `close` closes.

        Args:
            store: Store of the results; None: every look-up misses.
            on_warning: Called with each warning, one line.
            clock: Clock for the pauses of a failing store.

        Raises:
            ConfigError: the store belongs to another program, has another layout, or needs a
                password.
        """
        self.counters = CacheCounters()
        """Counters so far."""
        self.warnings: list[str] = []
        """Warnings, at most one of each kind."""
        self._store = store
        self._on_warning = on_warning
        self._warned: set[str] = set()
        self._reading, self._writing = CircuitBreaker(clock), CircuitBreaker(clock)
        self._is_open = False
        self._tolerated: tuple[type[HeadraceError], ...] = (CacheError,)
        self._try(self._reading, lambda store: None)
        # From here on, failures only cost results.
        self._tolerated = (CacheError, ConfigError)

    @property
    def where(self) -> str:
        """File or address of the store, without passwords; `none` without a store."""
        return "none" if self._store is None else self._store.where

    @property
    def is_none(self) -> bool:
        """Whether there is no store, so that keys are not needed."""
        return self._store is None

    def get(self, keys: Iterable[ChunkKey]) -> dict[ChunkKey, Arrays]:
        """Return the cached results; the caller owns the arrays.

        All results are in memory at once: look up a few dozen chunks at a time.
        """
        key_by_digest = {key.digest: key for key in keys}
        results: dict[ChunkKey, Arrays] = {}
        if not key_by_digest:
            return results
        entries = self._try(self._reading, lambda store: store.get(list(key_by_digest))) or {}
        for digest, content in entries.items():
            try:
                results[key_by_digest[digest]] = decode(content, digest).arrays
            except CacheError as error:
                self.counters.damaged += 1
                self._warn(
                    "damage",
                    f"the cache {self.where} has an entry that {error}; damaged results are "
                    "computed again, headrace cache verify lists them",
                )
            else:
                self.counters.read_bytes += len(content)
        self.counters.hits += len(results)
        self.counters.misses += len(key_by_digest) - len(results)
        return results

    def put(self, results: Mapping[ChunkKey, Arrays]) -> None:
        """Store results, or count them as not stored.

        Raises:
            ConfigError: an array has a type that cannot be stored.
        """
        if self._store is None or not results:
            return
        entries: dict[str, bytes] = {}
        for key, arrays in results.items():
            content = encode(CacheEntry(key, arrays))
            if len(content) > self._store.max_entry_bytes:
                self.counters.unstored += 1
                self.counters.too_large += 1
                self._warn(
                    "size",
                    f"the cache {self.where} stores results up to {self._store.max_entry_bytes:,} "
                    f"bytes, one has {len(content):,}; larger results are not stored: use chunks "
                    "of fewer frames",
                )
            else:
                entries[key.digest] = content

        def keep(store: Store) -> bool:
            store.put(entries)
            return True

        if not entries:
            return
        if self._try(self._writing, keep):
            self.counters.stored += len(entries)
            self.counters.written_bytes += sum(map(len, entries.values()))
        else:
            self.counters.unstored += len(entries)

    def close(self) -> None:
        """Close the store; never fails."""
        if self._store is not None:
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _try(
        self, breaker: CircuitBreaker, operation: Callable[[Store], ResultT]
    ) -> ResultT | None:
        """Return the result of an operation; None if it fails or is paused, or without a store."""
        if self._store is None or not breaker.is_closed:
            return None
        try:
            if not self._is_open:
                notes = self._store.open()
                self._is_open = True
                if notes:
                    self._warn("set-up", f"the cache {self.where}: {'; '.join(notes)}")
            result = operation(self._store)
        except self._tolerated as error:
            breaker.record_failure()
            self.counters.errors += 1
            self._warn(
                "failure",
                f"the cache failed: {error}; the run continues and computes missing results",
            )
            return None
        breaker.record_success()
        return result

    def _warn(self, kind: str, text: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            self.warnings.append(text)
            self._on_warning(text)
