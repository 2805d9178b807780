"""One connection of the server: one of so many, and ended when it asks for nothing."""

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

MOST_CONNECTIONS: Final = 256
"""More at a time are cut: each takes a file descriptor, which sources and sinks need."""
IDLE_SECONDS: Final = 10.0
"""A connection that asks for nothing whole for so long, or twice as long, is cut: who connects and
stays silent would keep the places of those who look."""


class Connection(H11Protocol):
    """HTTP for one browser. What it sends is read by h11, a request at a time."""

    def __init__(self, *given: Any, idle_seconds: float = IDLE_SECONDS, **named: Any) -> None:
        """Made by the server, with what uvicorn gives."""
        super().__init__(*given, **named)
        self._idle_seconds = idle_seconds
        self._seen: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See asyncio.Protocol."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
        else:
            self.loop.call_later(self._idle_seconds, self._look)

    def _look(self) -> None:
        if self.transport.is_closing():
            return
        is_answered = self.cycle is None or self.cycle.response_complete
        if is_answered and self.cycle is self._seen:
            self.transport.abort()
            return
        self._seen = self.cycle
        self.loop.call_later(self._idle_seconds, self._look)
