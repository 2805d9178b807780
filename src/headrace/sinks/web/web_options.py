"""Options of the web page: address, port and access."""

import re
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Annotated, Final

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
            "Address to serve the page at; any but a loopback address requires a token.",
            flags=("--web-address",),
            metavar="ADDRESS",
        ),
    ] = "127.0.0.1"
    """A loopback address is for browsers on this machine; any other requires a token."""
    port: Annotated[
        int,
        Option(
            "Port of the page; 0 means any free one.", least=0, most=65535, flags=("--web-port",)
        ),
    ] = PORT
    token: str | None = field(default=None, repr=False)
    """Token that browsers send, never recorded. None: generated for each run if other machines can
    connect, else not required."""
    hosts: Annotated[
        tuple[str, ...],
        Option(
            "Further host name to accept, such as a reverse proxy's; repeatable.",
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
            raise ConfigError(f"a port is 0 (any free port) to 65535, got {self.port}")
        try:
            ip_address(self.bind_address)
        except ValueError as error:
            raise ConfigError(
                f"an address is an IP address of this machine, or localhost, got {self.address!r}"
            ) from error
        if self.token is not None and len(self.token) < _MIN_TOKEN:
            raise ConfigError(
                f"a token needs {_MIN_TOKEN} characters or more, got {len(self.token)}; "
                "leave it out for a generated one"
            )
        if self.token is not None and not re.fullmatch(r"[\w.~-]+", self.token, re.ASCII):
            raise ConfigError(
                "a token consists of letters, digits and - . _ ~, as part of an address; give "
                "another one"
            )
        for host in self.hosts:
            if not re.fullmatch(r"[\w.-]+", host):
                raise ConfigError(
                    f"a host is a name without scheme, port and path, got {host!r}; give it as in "
                    "camera.example.org"
                )
        if not (self.images_per_second > 0 and self.health_timeout_seconds > 0):
            raise ConfigError(
                "images_per_second and health_timeout_seconds must be > 0, got "
                f"{self.images_per_second:g} and {self.health_timeout_seconds:g}"
            )

    @property
    def bind_address(self) -> str:
        """The IP address to listen on."""
        return "127.0.0.1" if self.address == "localhost" else self.address

    @property
    def is_local(self) -> bool:
        """Whether only this machine can connect."""
        return ip_address(self.bind_address).is_loopback
