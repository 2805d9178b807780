"""ASGI server (uvicorn) in a thread, and a counter for which its coroutines can wait."""

import asyncio
import socket
import sys
import threading
from functools import partial
from typing import Any, Final, cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from headrace.errors import ConfigError, StageError, reason_of
from headrace.runtime.synchronization import ThreadGroup

MAX_CONNECTIONS: Final = 256
"""Maximum number of open connections; further ones are closed, as sources and sinks need file
descriptors."""
IDLE_SECONDS: Final = 10.0
"""A connection is closed after one to two times this long without a complete request: idle clients
would take the connections of active ones."""


class Connection(H11Protocol):
    """HTTP connection of one client; h11 reads one request at a time."""

    def __init__(self, *args: Any, idle_seconds: float = IDLE_SECONDS, **kwargs: Any) -> None:
        """See uvicorn's `H11Protocol`."""
        super().__init__(*args, **kwargs)
        self._idle_seconds = idle_seconds
        self._last_cycle: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See asyncio.Protocol."""
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.abort()
        else:
            self.loop.call_later(self._idle_seconds, self._cut_if_idle)

    def _cut_if_idle(self) -> None:
        if self.transport.is_closing():
            return
        is_answered = self.cycle is None or self.cycle.response_complete
        if is_answered and self.cycle is self._last_cycle:
            self.transport.abort()
            return
        self._last_cycle = self.cycle
        self.loop.call_later(self._idle_seconds, self._cut_if_idle)


UNREAD_SECONDS: Final = 10
"""The system closes a connection whose client leaves a response unread for this long."""


class Server:
    """Serves an ASGI application: `with Server(app, listener): ...`.

    Leaving the block ends the server at once: it closes connections, drops unfinished responses and
    joins the thread. No client can delay that.
    """

    def __init__(
        self, app: ASGIApp, listener: socket.socket, *, idle_seconds: float = IDLE_SECONDS
    ) -> None:
        """Start no thread before the block begins.

        Args:
            app: The application; called in the server's thread only.
            listener: From `listen`; closed at the end of the block.
            idle_seconds: See `IDLE_SECONDS`.
        """
        self._listener = listener
        self._error: BaseException | None = None
        self._server = _CuttingServer(
            uvicorn.Config(
                app,
                http=cast(type[asyncio.Protocol], partial(Connection, idle_seconds=idle_seconds)),
                ws="none",
                loop="asyncio",
                lifespan="off",
                log_config=None,
                log_level="critical",
                access_log=False,
                proxy_headers=False,
                server_header=False,
                date_header=False,
                limit_concurrency=MAX_CONNECTIONS,
                timeout_graceful_shutdown=1,
            )
        )
        self._threads = ThreadGroup(self._stop)

    def __enter__(self) -> "Server":
        self._threads.__enter__()
        self._threads.start("server", self._run)
        return self

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> None:
        """End the server.

        Raises:
            StageError: the server has failed.
        """
        self._threads.close()
        self._listener.close()
        if self._error is not None and error is None:
            raise StageError(f"the server failed: {self._error}", stage="server") from self._error

    def _stop(self) -> None:
        self._server.should_exit = True

    def _run(self) -> None:
        try:
            with asyncio.Runner() as runner:
                runner.run(self._server.serve(sockets=[self._listener]))
        except BaseException as error:  # noqa: BLE001 - raised at the end of the block
            self._error = error


class _CuttingServer(uvicorn.Server):
    """Ends without waiting for clients: a client that does not read would block it forever."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for connection in list(self.server_state.connections):
            if connection.transport is not None:
                connection.transport.abort()
        await super().shutdown(sockets)


def listen(address: str, port: int) -> socket.socket:
    """Open a port, which accepts connections at once; requests wait until a `Server` runs.

    Args:
        address: An IP address of this machine, or `localhost`.
        port: The port; 0 for any free one.

    Raises:
        ConfigError: the port is in use or forbidden, or the address is not of this machine.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if sys.platform != "win32":  # on Windows it would share a used port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; connections inherit it
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_SECONDS * 1000)
        listener.bind((address, port))
        listener.listen(MAX_CONNECTIONS)
    except OSError as error:
        listener.close()
        reason = reason_of(error)
        raise ConfigError(
            f"cannot serve on {address} port {port}: {reason}; give another port (--web-port), or "
            "0 for any free one, and an address of this machine"
        ) from error
    return listener


class UpdateCounter:
    """Number of updates by one thread; coroutines can wait for the next one."""

    def __init__(self) -> None:
        """Start at 0."""
        self.number = 0
        """Number of updates so far."""
        self._lock = threading.Lock()
        self._is_closed = False
        self._waiting: set[asyncio.Future[None]] = set()

    def increase(self) -> None:
        """Count an update and wake the coroutines; never blocks."""
        with self._lock:
            self.number += 1
            self._wake()

    def close(self) -> None:
        """End all waits, also future ones."""
        with self._lock:
            self._is_closed = True
            self._wake()

    async def wait(self, after: int, seconds: float) -> bool:
        """Wait until the number is above `after`; return False if it is not within `seconds`."""
        with self._lock:
            if self.number > after or self._is_closed:
                return self.number > after
            woken = asyncio.get_running_loop().create_future()
            self._waiting.add(woken)
        try:
            await asyncio.wait_for(woken, seconds)
        except TimeoutError:
            return False
        finally:
            with self._lock:
                self._waiting.discard(woken)
        return self.number > after

    def _wake(self) -> None:
        for woken in self._waiting:
            woken.get_loop().call_soon_threadsafe(_set_done, woken)
        self._waiting.clear()


def _set_done(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
