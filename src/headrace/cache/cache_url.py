"""From what a user types behind `--cache` to the cache."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import platformdirs

from headrace.cache.cache import Cache, unheard
from headrace.cache.redis_settings import SCHEMES, RedisAddress
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
"""Name of the file in a folder, with its layout: another layout has a file of its own."""
_MOST_BYTES: Final = 2**63
"""What SQLite can count to."""
_HOW: Final = "give sqlite, the path of a file or folder, redis://HOST[:PORT], or none"


def open_cache(
    text: str = DEFAULT,
    *,
    bound_bytes: int | None = None,
    on_warning: Callable[[str], None] = unheard,
    clock: Clock = SYSTEM_CLOCK,
) -> Cache:
    """Return the cache that `text` names, reached once; close it.

    Args:
        text: `sqlite` for a file in the user's cache folder, the path of a file or folder, the
            address of a Redis or Valkey server (`redis://`, `rediss://`, `unix://`), or `none`.
        bound_bytes: Of all entries of a file, which keeps it; None: as it has it, else 10 GiB. A
            server bounds itself.
        on_warning: Is told each warning, one line.
        clock: For when entries were used, and when a store that failed is tried again.

    Raises:
        ConfigError: `text` names no cache, a file of somebody else, or a server that wants a
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
    """Return the store that `text` names, not reached yet: see `open_cache`; `none` is none.

    With `must_exist`, ConfigError where it would have to be made. Without `sets_aside`, a damaged
    file stays where it is.
    """
    if bound_bytes is not None and not 1 <= bound_bytes < _MOST_BYTES:
        raise ConfigError(
            f"the bound of a cache must be at least 1 byte, and below 2**63; got {bound_bytes}"
        )
    scheme, mark, _ = text.partition("://")
    if mark:
        if scheme not in SERVERS:
            raise ConfigError(f"no cache is reached by {scheme!a}; {_HOW}")
        if bound_bytes is not None:
            raise ConfigError("a cache server has a bound of its own; set maxmemory there")
        return SERVERS[scheme](text)
    if text in ("", NONE):
        raise ConfigError(f"no cache is named; {_HOW}")
    is_default = text == DEFAULT
    path = _default_path() if is_default else _path(text)
    if must_exist and not path.exists():
        raise ConfigError(f"there is no cache {path} yet; a run that keeps results makes it")
    return SqliteStore(
        path,
        bound_bytes=bound_bytes,
        is_own_place=is_default,
        sets_aside=sets_aside,
        clock=clock,
    )


def shown(text: str) -> str:
    """Return what a user typed behind `--cache`, without passwords.

    Raises:
        ConfigError: it is the address of a server, and none that can be understood.
    """
    scheme, mark, _ = text.partition("://")
    if not mark:
        return text
    is_other = scheme in SERVERS and scheme not in SCHEMES
    return masked(text) if is_other else RedisAddress.of(text).shown


def _default_path() -> Path:
    return Path(platformdirs.user_cache_dir("headrace")) / FILE


def _path(text: str) -> Path:
    """The file that a path names, which may be that of a folder."""
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
"""Scheme of an address -> what makes its store of the whole address, which may hold a password. A
store of another kind is one file with a `Store`, and an entry here."""
