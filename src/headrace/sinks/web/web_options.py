"""Options of the web page, and its access control: address, token, Host and Origin."""

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Annotated, Final
from urllib.parse import urlsplit

from headrace.config_fields import Option
from headrace.errors import ConfigError

PORT: Final = 8686
"""Default port; no well-known service uses it."""
_MIN_TOKEN: Final = 16
"""Min characters of a token."""


@dataclass(frozen=True, kw_only=True)
class WebOptions:
    """Options of page, metrics and health of a run."""

    address: Annotated[
        str,
        Option(
            "IP address of the page; other than a loopback address, it requires a token.",
            flags=("--web-address",),
            metavar="ADDRESS",
        ),
    ] = "127.0.0.1"
    """IP address to serve on. Other than a loopback address, it requires a token."""
    port: Annotated[
        int, Option("Port of the page; 0: any.", least=0, most=65535, flags=("--web-port",))
    ] = PORT
    token: str | None = field(default=None, repr=False)
    """Token that browsers send, never recorded. None: generated for each run if other machines can
    connect, else not required."""
    hosts: Annotated[
        tuple[str, ...],
        Option(
            "Additional host name of the page, such as a proxy's; repeatable.",
            flags=("--web-host",),
            metavar="NAME",
            is_repeated=True,
        ),
    ] = ()
    """Host names without a port."""
    with_page: bool = True
    """False: `/metrics` and `/health` only."""
    images_per_second: float = 15.0
    """Max images per second and browser; each costs 3 to 5 ms of CPU time."""
    health_timeout_seconds: float = 10.0
    """Seconds without a result after which a run is unhealthy; longer than a reconnection."""

    def __post_init__(self) -> None:
        """Check the options that do not need an open port."""
        if not 0 <= self.port <= 65535:
            raise ConfigError(f"a port must be from 0 (any free port) to 65535, got {self.port}")
        try:
            ip_address(self.bind_address)
        except ValueError as error:
            raise ConfigError(
                "an address must be an IP address of this machine, or localhost, got "
                f"{self.address!r}"
            ) from error
        if self.token is not None and len(self.token) < _MIN_TOKEN:
            raise ConfigError(
                f"a token must have at least {_MIN_TOKEN} characters, got {len(self.token)}; leave "
                "it out for a generated one"
            )
        if self.token is not None and not re.fullmatch(r"[\w.~-]+", self.token, re.ASCII):
            raise ConfigError(
                "a token must consist of letters, digits and - . _ ~, because it is part of a URL; "
                "give another one"
            )
        for host in self.hosts:
            if not re.fullmatch(r"[\w.-]+", host):
                raise ConfigError(
                    f"a host must be a name without scheme, port and path, such as "
                    f"camera.example.org, got {host!r}"
                )
        if not (self.images_per_second > 0 and self.health_timeout_seconds > 0):
            raise ConfigError(
                "images_per_second and health_timeout_seconds must be > 0, got "
                f"{self.images_per_second:g} and {self.health_timeout_seconds:g}"
            )

    @property
    def bind_address(self) -> str:
        """IP address to listen on."""
        return "127.0.0.1" if self.address == "localhost" else self.address

    @property
    def is_local(self) -> bool:
        """Whether only this machine can connect."""
        return ip_address(self.bind_address).is_loopback


_READ_METHODS: Final = ("GET", "HEAD")


@dataclass(frozen=True, kw_only=True)
class Guard:
    """Guard against requests from other sites and requests without a token.

    A page of another site must not read this page through a browser that has access. The check of
    Origin prevents cross-origin requests, the check of Host prevents DNS rebinding. Rebinding needs
    a name, so IP addresses are allowed.
    """

    is_local: bool
    """Whether only this machine can connect."""
    hosts: frozenset[str]
    """Allowed host names in lower case, besides `localhost`."""
    token: str | None
    """None: no token is required."""

    def check(
        self,
        method: str,
        headers: Mapping[str, str],
        *,
        query_token: str | None = None,
        cookie_token: str | None = None,
    ) -> tuple[int, str] | None:
        """Return (HTTP status, reason with the fix) of a denial; None: the request is allowed.

        Args:
            method: Method of the request.
            headers: Header values by lower-case name.
            query_token: Query parameter `token`.
            cookie_token: Token in the cookie.
        """
        if method not in _READ_METHODS:
            return 405, "this server is read-only: use GET"
        host = headers.get("host", "")
        if not self._is_allowed(host):
            fix = "use an IP address, or add the name with --web-host"
            return 403, f"unknown host name {_name(host)!r}: {fix}"
        if _is_foreign(headers, host):
            return 403, "pages of other sites have no access"
        kind, _, bearer = headers.get("authorization", "").partition(" ")
        tokens = [query_token, cookie_token, bearer.strip() if kind.lower() == "bearer" else None]
        if self.token is not None and not any(
            secrets.compare_digest(token.encode(), self.token.encode()) for token in tokens if token
        ):
            return 401, "add ?token=TOKEN to the address, or send the token as a bearer token"
        return None

    def _is_allowed(self, host: str) -> bool:
        name = _name(host)
        if name in {"localhost", *self.hosts}:
            return True
        try:
            address = ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or not self.is_local


def _name(host: str) -> str:
    """Return the name of a Host header, without the port; empty for an invalid one."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _is_foreign(headers: Mapping[str, str], host: str) -> bool:
    """Return whether a page of another site sent the request; links are allowed."""
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2] != host:
        return True
    is_cross_site = headers.get("sec-fetch-site") in {"cross-site", "same-site"}
    return is_cross_site and headers.get("sec-fetch-mode") != "navigate"


def new_token() -> str:
    """Return 128 random bits as URL-safe text."""
    return secrets.token_urlsafe(16)
