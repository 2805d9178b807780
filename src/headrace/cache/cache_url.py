"""Cache of the value of `--cache`."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import platformdirs

from headrace.cache.redis_settings import SCHEMES, RedisAddress
from headrace.cache.result_cache import Cache, ignore_warning
from headrace.cache.sqlite_store import SqliteStore
from headrace.cache.store import Store
from headrace.errors import ConfigError
from headrace.extras import require
from headrace.redaction import masked
from headrace.runtime.clock import SYSTEM_CLOCK, Clock

DEFAULT: Final = "sqlite"
"""A file in the user's cache folder."""
NONE: Final = "none"
FILE: Final = "chunks-1.sqlite"
"""Name of the file in a folder; each layout has its own."""
_MOST_BYTES: Final = 2**63
"""Exclusive limit of a bound: SQLite's integers have 64 bits."""
_HOW: Final = "give sqlite, the path of a file or folder, redis://HOST[:PORT], or none"


def open_cache(
    text: str = DEFAULT,
    *,
    bound_bytes: int | None = None,
    on_warning: Callable[[str], None] = ignore_warning,
    clock: Clock = SYSTEM_CLOCK,
) -> Cache:
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
    """Return the value of `--cache` without passwords.

    Raises:
        ConfigError: `text` is a malformed server address.
    """
    scheme, mark, _ = text.partition("://")
    if not mark:
        return text
    is_other = scheme in SERVERS and scheme not in SCHEMES
    return masked(text) if is_other else RedisAddress.of(text).shown


def _path(text: str) -> Path:
    """Return the file of a path to the file or its folder."""
    try:
        path = Path(text).expanduser()
        if "\0" in text:
            raise ValueError("it holds a zero byte")
        return path / FILE if path.is_dir() else path
    except (OSError, ValueError, RuntimeError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise ConfigError(f"the cache {text[:80]!r} cannot be used: {reason}; {_HOW}") from error


def _redis_store(text: str) -> Store:
    address = RedisAddress.of(text)
    with require("redis", "a cache server"):
        from headrace.cache.redis_store import RedisStore
    return RedisStore(address)


SERVERS: Final[dict[str, Callable[[str], Store]]] = dict.fromkeys(SCHEMES, _redis_store)
"""Scheme of an address → function from the whole address, which may hold a password, to a store.
To add a kind of store: a file with a `Store`, and an entry here."""
