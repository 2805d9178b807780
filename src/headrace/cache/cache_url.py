"""Cache of results, by the value of `--cache`; failures of its store never change a result."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR
from typing import Final, Self, TypeVar
from urllib.parse import parse_qsl, urlsplit

import platformdirs

from headrace.cache.key import Arrays, CacheEntry, ChunkKey, decode, encode
from headrace.cache.sqlite_store import SqliteStore
from headrace.cache.store import CircuitBreaker, Store, ignore_warning
from headrace.errors import CacheError, ConfigError, HeadraceError
from headrace.extras import require
from headrace.redaction import masked
from headrace.runtime.clock import SYSTEM_CLOCK, Clock

ResultT = TypeVar("ResultT")

DEFAULT: Final = "sqlite"
"""A file in the user's cache folder."""
NONE: Final = "none"
FILE: Final = "chunks-1.sqlite"
"""Name of the file in a folder; each layout has its own."""
_MOST_BYTES: Final = 2**63
"""Exclusive limit of a bound: SQLite's integers have 64 bits."""
_HOW: Final = "give sqlite, the path of a file or folder, redis://HOST[:PORT], or none"
_REDIS: Final = ("redis", "rediss", "unix")
"""Schemes of a Redis or Valkey server."""
_OPTIONS: Final = ("db", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
"""Query options of its address: the database of a socket, and files for TLS."""
_REDIS_FORM: Final = "redis://[USER:PASSWORD@]HOST[:PORT][/DB], rediss://… or unix://PATH[?db=DB]"


def open_cache(
    text: str = DEFAULT,
    *,
    bound_bytes: int | None = None,
    on_warning: Callable[[str], None] = ignore_warning,
    clock: Clock = SYSTEM_CLOCK,
) -> "Cache":
    """Open the cache named by `text`; the caller closes it.

    Args:
        text: `sqlite` for a file in the user's cache folder, the path of a file or folder, the
            address of a Redis or Valkey server (`redis://`, `rediss://`, `unix://`), or `none`.
        bound_bytes: Max bytes of all entries of a file, stored in it; None: the stored value, else
            10 GiB. A server has its own bound.
        on_warning: Called with each warning, one line.
        clock: Clock for times of use, and for pauses of a failing store.

    Raises:
        ConfigError: `text` names no cache, a file of another program, or a server that needs a
            password; or a bound is given for a server.
        BackendError: the extra `redis` is not installed.
    """
    store = None if text == NONE else open_store(text, bound_bytes=bound_bytes, clock=clock)
    return Cache(store, on_warning=on_warning, clock=clock)


def open_store(
    text: str = DEFAULT,
    *,
    bound_bytes: int | None = None,
    must_exist: bool = False,
    sets_aside: bool = True,
    clock: Clock = SYSTEM_CLOCK,
) -> Store:
    """Return the store named by `text`, not opened yet: see `open_cache`; refuses `none`.

    With `must_exist`, raises ConfigError for a missing file. Without `sets_aside`, a damaged file
    keeps its name.
    """
    if bound_bytes is not None and not 1 <= bound_bytes < _MOST_BYTES:
        raise ConfigError(
            f"the bound of a cache must be at least 1 byte and below 2**63, got {bound_bytes}"
        )
    scheme, mark, _ = text.partition("://")
    if mark:
        if scheme not in SERVERS:
            raise ConfigError(f"unknown scheme {scheme!a} of a cache; {_HOW}")
        if bound_bytes is not None:
            raise ConfigError("the bound of a cache server is its maxmemory; set it on the server")
        return SERVERS[scheme](text)
    if text in ("", NONE):
        raise ConfigError(f"no cache is given; {_HOW}")
    is_default = text == DEFAULT
    path = Path(platformdirs.user_cache_dir("headrace")) / FILE if is_default else _path(text)
    if must_exist and not path.exists():
        raise ConfigError(
            f"the cache {path} does not exist yet; the first run that stores results creates it"
        )
    return SqliteStore(
        path,
        bound_bytes=bound_bytes,
        is_own_folder=is_default,
        sets_aside=sets_aside,
        clock=clock,
    )


def shown(text: str) -> str:
    """Return the value of `--cache` without user and password.

    Raises:
        ConfigError: `text` is a malformed server address; the message does not repeat it, because
            it may hold a password.
    """
    scheme, mark, _ = text.partition("://")
    if not mark:
        return text
    if scheme in SERVERS and scheme not in _REDIS:
        return masked(text)
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ConfigError(
            "the address of the cache is malformed; percent-encode special characters of a "
            f"password, such as / as %2F: {_REDIS_FORM}"
        ) from error
    is_path, database = parts.scheme == "unix", parts.path.strip("/")
    place = parts.path if is_path else parts.hostname
    is_valid = is_path or database.isdecimal() or not database
    if parts.scheme not in _REDIS or not place or not is_valid:
        raise ConfigError(f"the address of a cache server must have the form {_REDIS_FORM}")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if options.keys() - set(_OPTIONS) or parts.fragment:
        raise ConfigError(
            f"the address of a cache server may have the options {', '.join(_OPTIONS)} alone; "
            "percent-encode special characters of a password, such as ? as %3F"
        )
    if not options.get("db", "0").isdecimal():
        raise ConfigError("the database of a cache server must be a number, as in ?db=1")
    host = f"[{place}]" if ":" in place and not is_path else place
    port_text = "" if port is None else f":{port}"
    path = "" if is_path or not database else f"/{database}"
    query = f"?db={options['db']}" if "db" in options else ""
    return f"{parts.scheme}://{host}{port_text}{path}{query}"


def _path(text: str) -> Path:
    """Return the file of a path to the file or its folder."""
    try:
        path = Path(text).expanduser()
        if "\0" in text:
            raise ValueError("it holds a zero byte")
        return path / FILE if _is_folder(path) else path
    except (OSError, ValueError, RuntimeError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise ConfigError(f"the cache {text[:80]!r} cannot be used: {reason}; {_HOW}") from error


def _is_folder(path: Path) -> bool:
    try:
        return S_ISDIR(path.stat().st_mode)  # is_dir raises no OSError from Python 3.14 on
    except FileNotFoundError:
        return False


def _redis_store(text: str) -> Store:
    where = shown(text)
    with require("redis", "a cache server"):
        from headrace.cache.redis_store import RedisStore
    return RedisStore(text, where)


SERVERS: Final[dict[str, Callable[[str], Store]]] = dict.fromkeys(_REDIS, _redis_store)
"""Scheme of an address → function from the whole address, which may hold a password, to a store.
To add a kind of store: a file with a `Store`, and an entry here."""


@dataclass(kw_only=True)
class CacheCounters:
    """Counters of a cache: hits + misses = look-ups."""

    hits: int = 0
    """Results that came from the cache."""
    misses: int = 0
    """Results that did not come from the cache, for any reason."""
    stored: int = 0
    """Results that were stored."""
    unstored: int = 0
    """Results that were not stored: the store failed, is full, or pauses after failures."""
    too_large: int = 0
    """Unstored results above the store's maximum size."""
    damaged: int = 0
    """Entries that were damaged; also counted as misses."""
    errors: int = 0
    """Failures of the store, of any operation."""
    read_bytes: int = 0
    """Bytes of hits."""
    written_bytes: int = 0
    """Bytes of stored results."""


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
