"""Store in a Redis or Valkey server, shared by many machines; the settings that suit it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import redis
from redis.backoff import NoBackoff
from redis.exceptions import NoPermissionError
from redis.retry import Retry

from headrace.cache.store import EntryInfo, StoreState, groups_by_size
from headrace.errors import CacheError, ConfigError, first_line

TIMEOUT_SECONDS: Final = 2.0
"""Timeout of a connection, and of each answer; a nearby server takes a millisecond."""
MAX_ENTRY_BYTES: Final = 8 << 20
"""Max bytes of an entry: a server is single-threaded, so all clients wait while it moves a large
value, and a value as large as its memory evicts all others."""
GROUP_BYTES: Final = 4 << 20
"""Bytes of entries per request: see MAX_ENTRY_BYTES."""
PREFIX: Final = b"headrace:1:"
"""Prefix of keys; other programs may use the server, too."""

_SCAN_COUNT: Final = 1000
"""Keys listed per request."""
_DIGEST_CHARACTERS: Final = 64


class RedisStore:
    """A `Store` in a server, which limits and evicts entries by its own settings."""

    def __init__(self, url: str, where: str, *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        """Set the server; send nothing yet.

        Args:
            url: Address, with the password.
            where: Address for messages, without it.
            timeout_seconds: See `TIMEOUT_SECONDS`.

        Raises:
            ConfigError: a TLS file of the address cannot be used.
        """
        self.where = where
        self.max_entry_bytes = MAX_ENTRY_BYTES
        try:
            self._client: Any = redis.Redis.from_url(
                url,
                socket_timeout=timeout_seconds,
                socket_connect_timeout=timeout_seconds,
                # One retry, for a connection that the server closed; none for a slow one.
                retry=Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
                decode_responses=False,
                protocol=2,
                health_check_interval=0,
            )
        except (redis.RedisError, OSError, ValueError) as error:
            raise ConfigError(f"the cache server {where} cannot be used: {error}") from error

    def open(self) -> Sequence[str]:
        """Connect to the server, and check its settings: see `Store.open`."""
        try:
            with self._errors_as("reached"):
                self._client.ping()
                return _problems(self._settings())
        except _RejectedError as error:
            raise ConfigError(
                f"the cache server {self.where} rejects the user or password; give them as "
                "redis://USER:PASSWORD@HOST, preferably in the environment variable HEADRACE_CACHE"
            ) from error

    def get(self, digests: Sequence[str], *, is_use: bool = True) -> dict[str, bytes]:
        """Return the existing entries: see `Store.get`."""
        entries: dict[str, bytes] = {}
        with self._errors_as("read"):
            names = [_name(digest) for digest in digests]
            for group in _groups(names, self._sizes(names)):
                values = self._client.mget(group)
                entries.update(
                    (_digest(name), value)
                    for name, value in zip(group, values, strict=True)
                    if isinstance(value, bytes)
                )
        return entries

    def put(self, entries: Mapping[str, bytes]) -> None:
        """Write entries: see `Store.put`. After a failure, the entries already written stay."""
        named = {_name(digest): content for digest, content in entries.items()}
        with self._errors_as("written"):
            for group in _groups(list(named), [len(content) for content in named.values()]):
                with self._client.pipeline(transaction=False) as line:
                    for name in group:
                        line.set(name, named[name])
                    answers = line.execute(raise_on_error=False)
                for answer in answers:
                    if isinstance(answer, redis.RedisError):
                        raise answer

    def remove(self, digests: Sequence[str]) -> None:
        """Remove entries; missing ones are ignored."""
        with self._errors_as("written"):
            for start in range(0, len(digests), _SCAN_COUNT):
                self._client.unlink(*map(_name, digests[start : start + _SCAN_COUNT]))

    def list_entries(self) -> Iterator[EntryInfo]:
        """Yield every entry without its bytes; does not count as a use."""
        with self._errors_as("read"):
            cursor = -1
            while cursor:
                cursor, names = self._client.scan(
                    max(cursor, 0), match=PREFIX + b"*", count=_SCAN_COUNT
                )
                with self._client.pipeline(transaction=False) as line:
                    for name in names:
                        line.memory_usage(name)
                        line.object("idletime", name)
                    answers = line.execute(raise_on_error=False)
                for name, size, idle in zip(names, answers[::2], answers[1::2], strict=True):
                    if len(name) == len(PREFIX) + _DIGEST_CHARACTERS and isinstance(size, int):
                        # A server that counts uses (LFU) has no times.
                        unused = float(idle) if isinstance(idle, int) else float("nan")
                        yield EntryInfo(_digest(name), size, unused)

    def state(self) -> StoreState:
        """Return the current state; lists all keys, about a second per million."""
        sizes = [entry.size_bytes for entry in self.list_entries()]
        with self._errors_as("read"):
            settings, statistics = self._settings(), self._client.info("stats")
        return StoreState(
            where=self.where,
            entries=len(sizes),
            size_bytes=sum(sizes),
            bound_bytes=_bound_bytes(settings) or None,
            hits=statistics.get("keyspace_hits"),
            misses=statistics.get("keyspace_misses"),
            notes=tuple(_problems(settings)),
        )

    def close(self) -> None:
        """Close the connections; never fails."""
        with suppress(redis.RedisError, OSError):
            self._client.close()

    def _sizes(self, names: Sequence[bytes]) -> list[int]:
        """Return the bytes of each value; 0: missing."""
        with self._client.pipeline(transaction=False) as line:
            for name in names:
                line.strlen(name)
            return [int(size) for size in line.execute()]

    def _settings(self) -> dict[str, str]:
        """Return the reported settings among `_SETTINGS`, from INFO if CONFIG is forbidden."""
        try:
            settings = self._client.config_get(*_SETTINGS)
        except redis.ResponseError:
            try:
                info = {**self._client.info("memory"), **self._client.info("persistence")}
            except redis.ResponseError:
                info = {}
            names = {name.replace("-", "_"): name for name in _SETTINGS}
            settings = {names[field]: info[field] for field in names if field in info}
            if "aof_enabled" in info:
                settings["appendonly"] = "yes" if info["aof_enabled"] else "no"
        return {str(name): str(value) for name, value in settings.items()}

    @contextmanager
    def _errors_as(self, what: str) -> Iterator[None]:
        """Turn errors of the client into a CacheError."""
        try:
            yield
        except (redis.AuthenticationError, NoPermissionError) as error:
            raise _RejectedError(f"{self.where} rejects the user or password") from error
        except redis.OutOfMemoryError as error:
            raise CacheError(
                f"{self.where} is full and stores nothing new; set maxmemory-policy allkeys-lru"
            ) from error
        except redis.TimeoutError as error:
            raise CacheError(f"{self.where} did not answer in time") from error
        except (redis.RedisError, OSError, ValueError, TypeError) as error:
            # Another program on the port may send any reply.
            reason = first_line(error).rstrip(".")
            raise CacheError(f"{self.where} cannot be {what}: {reason}") from error


_SETTINGS: Final = ("maxmemory", "maxmemory-policy", "save", "appendonly")
"""Settings that matter for a cache."""
_ADVICE: Final = "deploy/redis.conf has suitable settings"


def _bound_bytes(settings: Mapping[str, str]) -> int | None:
    """Return the max bytes of all entries; 0: no limit; None: not reported."""
    bound = settings.get("maxmemory", "")
    return int(bound) if bound.isdecimal() else None


def _problems(settings: Mapping[str, str]) -> list[str]:
    """Return problems, one line each; empty for a server that is set up as a cache."""
    problems = []
    bound_bytes, eviction = _bound_bytes(settings), settings.get("maxmemory-policy")
    if bound_bytes is None and eviction is None:
        return [f"does not report its eviction policy; {_ADVICE}"]
    if bound_bytes == 0:
        problems.append("has no maxmemory, so it may use all memory of its machine")
    elif eviction == "noeviction":
        problems.append("has the policy noeviction, so it stores nothing new once full")
    elif eviction is not None and eviction.startswith("volatile-"):
        problems.append(
            f"has the policy {eviction}, which never evicts results, so it stores nothing new once "
            "full"
        )
    if settings.get("save") or settings.get("appendonly") == "yes":
        problems.append("saves entries to disk, which a cache does not need")
    return [*problems, _ADVICE] if problems else []


class _RejectedError(CacheError):
    """The server rejects the user or password."""


def _groups(names: Sequence[bytes], sizes: Sequence[int]) -> Iterator[list[bytes]]:
    """Yield groups of names: see GROUP_BYTES. Skips empty and too large values."""
    sized = zip(names, sizes, strict=True)
    storable = ((name, size) for name, size in sized if 0 < size <= MAX_ENTRY_BYTES)
    return groups_by_size(storable, GROUP_BYTES)


def _name(digest: str) -> bytes:
    return PREFIX + digest.encode()


def _digest(name: bytes) -> str:
    return name.removeprefix(PREFIX).decode()
