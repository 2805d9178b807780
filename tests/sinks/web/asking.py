"""Requests over real HTTP, as a browser or a program sends them."""

import http.client
import socket
from dataclasses import dataclass
from typing import Any

from sinks.web.faked_run import FakedRun

TIMEOUT_SECONDS = 30
"""Far above what any answer takes; reached only by a hang."""


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    """By names in lower case."""
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


def ask(run: FakedRun, path: str, *, method: str = "GET", **headers: str) -> Reply:
    """The answer to one request; `sec_fetch_site="cross-site"` is a header."""
    connection = http.client.HTTPConnection("127.0.0.1", run.view.port, timeout=TIMEOUT_SECONDS)
    named: dict[str, Any] = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request(method, path, headers=named)
        reply = connection.getresponse()
        found = {name.lower(): value for name, value in reply.getheaders()}
        return Reply(reply.status, found, reply.read())
    finally:
        connection.close()


def connected(run: FakedRun, *, buffer: int | None = None) -> socket.socket:
    """A connection to the server, with room for `buffer` bytes that are not read."""
    connection = socket.socket()
    if buffer is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    connection.settimeout(TIMEOUT_SECONDS)
    connection.connect(("127.0.0.1", run.view.port))
    return connection
