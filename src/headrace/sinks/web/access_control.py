"""Who may see a run: token, host and origin of a request."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

_READING: Final = ("GET", "HEAD")


@dataclass(frozen=True)
class Denial:
    """Why a request is not answered."""

    status: int
    """Of HTTP."""
    words: str
    """For who asked: what to do."""


@dataclass(frozen=True, kw_only=True)
class RequestInfo:
    """What a request says of itself."""

    method: str
    headers: Mapping[str, str]
    """By names in lower case."""
    query_token: str | None = None
    """`token` in the address."""
    cookie_token: str | None = None


@dataclass(frozen=True, kw_only=True)
class Guard:
    """Refuses what does not come from a page of ours, or from somebody who may look.

    A page of another site must not read ours through a browser that may: not by asking from there
    (its Origin tells), nor by making its own name point to this machine (its Host tells: DNS
    rebinding needs a name, so numbers are let through).
    """

    is_local: bool
    """Only this machine can connect."""
    hosts: frozenset[str]
    """Names that are ours, in lower case, besides `localhost`."""
    token: str | None
    """None asks for none."""

    def refusal(self, asking: RequestInfo) -> Denial | None:
        """Say why a request is refused; None where it is not."""
        if asking.method not in _READING:
            return Denial(405, "this server only tells: use GET")
        host = asking.headers.get("host", "")
        if not self._is_ours(host):
            return Denial(
                403, f"not served under the name {_name(host)!r}: use an address, or add the name"
            )
        if _is_foreign(asking.headers, host):
            return Denial(403, "not served to pages of other sites")
        if self.token is not None and not self._is_shown(asking, self.token):
            return Denial(
                401,
                "open the address with ?token= and the token behind it, or send it as a bearer "
                "token",
            )
        return None

    def _is_ours(self, host: str) -> bool:
        name = _name(host)
        if name in {"localhost", *self.hosts}:
            return True
        try:
            address = ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or not self.is_local

    def _is_shown(self, asking: RequestInfo, token: str) -> bool:
        kind, _, bearer = asking.headers.get("authorization", "").partition(" ")
        given = (
            asking.query_token,
            asking.cookie_token,
            bearer.strip() if kind.lower() == "bearer" else None,
        )
        return any(is_same(each, token) for each in given if each is not None)


def _name(host: str) -> str:
    """The name in a Host header, without the port; empty where there is none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _is_foreign(headers: Mapping[str, str], host: str) -> bool:
    """Whether a page of another site asks; following a link from there is no such thing."""
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2] != host:
        return True
    is_from_elsewhere = headers.get("sec-fetch-site") in {"cross-site", "same-site"}
    return is_from_elsewhere and headers.get("sec-fetch-mode") != "navigate"


def new_token() -> str:
    """Return 128 random bits as text that needs no quoting in an address."""
    return secrets.token_urlsafe(16)


def is_same(given: str, token: str) -> bool:
    """Say whether `given` is the token, in a time that tells nothing of how much of it is right."""
    return secrets.compare_digest(given.encode(), token.encode())
