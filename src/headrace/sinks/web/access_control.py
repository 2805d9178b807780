"""Access control of the web page: token, Host and Origin of a request."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

_READ_METHODS: Final = ("GET", "HEAD")


@dataclass(frozen=True)
class Denial:
    """Denial of a request."""

    status: int
    """HTTP status."""
    reason: str
    """Reason, with the fix."""


@dataclass(frozen=True, kw_only=True)
class RequestInfo:
    """Parts of a request for access control."""

    method: str
    headers: Mapping[str, str]
    """Header values by lower-case name."""
    query_token: str | None = None
    """Query parameter `token`."""
    cookie_token: str | None = None


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

    def check(self, request: RequestInfo) -> Denial | None:
        """Return the denial of a request; None: allowed."""
        if request.method not in _READ_METHODS:
            return Denial(405, "this server is read-only: use GET")
        host = request.headers.get("host", "")
        if not self._is_allowed(host):
            return Denial(
                403,
                f"unknown host name {_name(host)!r}: use an IP address, or add the name with "
                "--web-host",
            )
        if _is_foreign(request.headers, host):
            return Denial(403, "pages of other sites have no access")
        if self.token is not None and not self._has_token(request, self.token):
            return Denial(
                401,
                "add ?token=TOKEN to the address, or send the token as a bearer token",
            )
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

    def _has_token(self, request: RequestInfo, token: str) -> bool:
        kind, _, bearer = request.headers.get("authorization", "").partition(" ")
        tokens = (
            request.query_token,
            request.cookie_token,
            bearer.strip() if kind.lower() == "bearer" else None,
        )
        return any(is_same(value, token) for value in tokens if value is not None)


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


def is_same(given: str, token: str) -> bool:
    """Return whether `given` is the token, in constant time."""
    return secrets.compare_digest(given.encode(), token.encode())
