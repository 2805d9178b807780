"""Address and settings of a Redis server: memory, eviction, persistence."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from headrace.errors import ConfigError

SCHEMES: Final = ("redis", "rediss", "unix")
_OPTIONS: Final = ("db", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
"""Query options of an address: the database of a socket, and files for TLS."""
_HOW: Final = "redis://[USER:PASSWORD@]HOST[:PORT][/DB], rediss://… or unix://PATH[?db=DB]"


@dataclass(frozen=True, repr=False)
class RedisAddress:
    """Address of a server. Its text has no password."""

    url: str
    """As given, with the password."""
    shown: str
    """Without user and password."""

    @classmethod
    def of(cls, url: str) -> "RedisAddress":
        """Parse an address.

        Raises:
            ConfigError: it is malformed; the message does not repeat it, because it may hold a
                password.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise ConfigError(
                "the address of the cache is malformed; percent-encode special characters of a "
                f"password, such as / as %2F: {_HOW}"
            ) from error
        host_or_path = parts.path if parts.scheme == "unix" else parts.hostname
        database = parts.path.strip("/")
        is_path = parts.scheme == "unix"
        if (
            parts.scheme not in SCHEMES
            or not host_or_path
            or not (is_path or database.isdecimal() or not database)
        ):
            raise ConfigError(f"the address of a cache server must have the form {_HOW}")
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        unknown = [name for name in options if name not in _OPTIONS]
        if unknown or parts.fragment:
            raise ConfigError(
                f"the address of a cache server may have the options {', '.join(_OPTIONS)} alone; "
                "percent-encode special characters of a password, such as ? as %3F"
            )
        if not options.get("db", "0").isdecimal():
            raise ConfigError("the database of a cache server must be a number, as in ?db=1")
        host = f"[{host_or_path}]" if ":" in host_or_path and not is_path else host_or_path
        port_text = "" if port is None else f":{port}"
        path = "" if is_path or not database else f"/{database}"
        query = f"?db={options['db']}" if "db" in options else ""
        return cls(url, f"{parts.scheme}://{host}{port_text}{path}{query}")

    def __str__(self) -> str:
        return self.shown

    def __repr__(self) -> str:
        return f"RedisAddress({self.shown!r})"


SETTINGS: Final = ("maxmemory", "maxmemory-policy", "save", "appendonly")
"""Settings that matter for a cache."""
_ADVICE: Final = "deploy/redis.conf has suitable settings"


@dataclass(frozen=True)
class RedisSettings:
    """Memory limit, eviction and persistence of a server."""

    bound_bytes: int | None
    """Max bytes of all entries; 0: no limit; None: not reported."""
    eviction: str | None
    """Eviction policy; None: not reported."""
    saves: bool | None
    """Whether it saves entries to disk; None: not reported."""

    @classmethod
    def of_settings(cls, settings: Mapping[str, str]) -> "RedisSettings":
        """Return the values from the settings of a server."""
        bound = settings.get("maxmemory", "")
        saves = None
        if "save" in settings or "appendonly" in settings:
            saves = bool(settings.get("save")) or settings.get("appendonly") == "yes"
        return cls(
            int(bound) if bound.isdecimal() else None, settings.get("maxmemory-policy"), saves
        )

    def problems(self) -> list[str]:
        """Return problems, one line each; empty for a server that is set up as a cache."""
        problems = []
        if self.bound_bytes is None and self.eviction is None:
            return [f"does not report its eviction policy; {_ADVICE}"]
        if self.bound_bytes == 0:
            problems.append("has no maxmemory, so it may use all memory of its machine")
        elif self.eviction == "noeviction":
            problems.append("has the policy noeviction, so it stores nothing new once full")
        elif self.eviction is not None and self.eviction.startswith("volatile-"):
            problems.append(
                f"has the policy {self.eviction}, which never evicts results, so it stores nothing "
                "new once full"
            )
        if self.saves:
            problems.append("saves entries to disk, which a cache does not need")
        return [*problems, _ADVICE] if problems else []
