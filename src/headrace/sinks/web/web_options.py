"""Where a live run is shown, and to whom."""

import re
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Annotated, Final

from headrace.config_fields import Option
from headrace.errors import ConfigError

PORT: Final = 8686
"""Taken by no well-known service."""
_SHORTEST_TOKEN: Final = 16


@dataclass(frozen=True, kw_only=True)
class WebOptions:
    """How the page, the metrics and the health of a run are served."""

    address: Annotated[
        str,
        Option(
            "Where the page is served; others need a token.",
            flags=("--web-address",),
            metavar="ADDRESS",
        ),
    ] = "127.0.0.1"
    """Of this machine: browsers on it only. Any other asks browsers for a token."""
    port: Annotated[
        int, Option("Its port; 0 for any.", least=0, most=65535, flags=("--web-port",))
    ] = PORT
    token: str | None = field(default=None, repr=False)
    """What browsers have to show; None makes a new one for each run where others than this machine
    can connect, and asks for none where they cannot. Never recorded."""
    hosts: Annotated[
        tuple[str, ...],
        Option(
            "A name it may be asked for under, as a proxy's; repeatable.",
            flags=("--web-host",),
            metavar="NAME",
            is_repeated=True,
        ),
    ] = ()
    """Without a port."""
    with_page: bool = True
    """False serves `/metrics` and `/health` only, and no picture."""
    pictures_per_second: float = 15.0
    """Most that one browser gets. Each costs 3 to 5 ms of processor time, while anybody looks."""
    health_timeout_seconds: float = 10.0
    """No result for longer than this is unhealthy. Above the time a source takes to reconnect."""

    def __post_init__(self) -> None:
        """Check what can be checked before the port is opened."""
        if not 0 <= self.port <= 65535:
            raise ConfigError(f"a port is 0 (any that is free) to 65535, got {self.port}")
        try:
            ip_address(self.bind_address)
        except ValueError as error:
            raise ConfigError(
                f"an address is an IP address of this machine, or localhost, got {self.address!r}"
            ) from error
        if self.token is not None and len(self.token) < _SHORTEST_TOKEN:
            raise ConfigError(
                f"a token needs {_SHORTEST_TOKEN} characters or more, got {len(self.token)}; "
                "leave it out to have one made"
            )
        if self.token is not None and not re.fullmatch(r"[\w.~-]+", self.token, re.ASCII):
            raise ConfigError(
                "a token is made of letters, digits and - . _ ~, so that an address can hold it; "
                "give another one"
            )
        for host in self.hosts:
            if not re.fullmatch(r"[\w.-]+", host):
                raise ConfigError(
                    f"a host is a name without scheme, port and path, got {host!r}; give it as in "
                    "camera.example.org"
                )
        if not (self.pictures_per_second > 0 and self.health_timeout_seconds > 0):
            raise ConfigError(
                "pictures_per_second and health_timeout_seconds must be > 0, got "
                f"{self.pictures_per_second:g} and {self.health_timeout_seconds:g}"
            )

    @property
    def bind_address(self) -> str:
        """The address as numbers."""
        return "127.0.0.1" if self.address == "localhost" else self.address

    @property
    def is_local(self) -> bool:
        """Only this machine can connect."""
        return ip_address(self.bind_address).is_loopback
