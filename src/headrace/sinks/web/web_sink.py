"""Web page of a run, as a sink."""

import socket
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from headrace.runtime.asgi_server import Server, listen
from headrace.runtime.clock import Clock
from headrace.sinks.batch_results import BatchResults
from headrace.sinks.web.access_control import Guard, new_token
from headrace.sinks.web.live_image import LiveImage
from headrace.sinks.web.status import LiveStatus, StatusCache
from headrace.sinks.web.web_app import AppState, application
from headrace.sinks.web.web_options import WebOptions


class WebView:
    """Web server of a run, inside its block: `with WebView(...) as view: ...`.

    Inside the block it is a `ResultSink` of the latest frames; each write copies one frame.
    """

    def __init__(
        self,
        options: WebOptions,
        read_status: Callable[[], LiveStatus],
        names: tuple[str, ...],
        *,
        clock: Clock,
    ) -> None:
        """Open the port; requests are answered inside the block.

        Args:
            options: Address, port and access.
            read_status: Returns the status of the run; called in the server's thread, at most four
                times per second, and should take about a millisecond.
            names: Names of the sources, without credentials.
            clock: Clock of the run.

        Raises:
            ConfigError: the port cannot be opened.
        """
        self.name = "web page"
        self._listener = listen(options.bind_address, options.port)
        self.port: int = self._listener.getsockname()[1]
        """Opened port."""
        self._options = options
        self._token = options.token or (None if options.is_local else new_token())
        self._images = LiveImage(names, clock, options.images_per_second)
        hostnames = () if options.is_local else (socket.gethostname(),)
        guard = Guard(
            is_local=options.is_local,
            hosts=frozenset(name.lower() for name in (*options.hosts, *hostnames)),
            token=self._token,
        )
        state = AppState(
            cache=StatusCache(read_status, clock),
            health_timeout_seconds=options.health_timeout_seconds,
            images=self._images if options.with_page else None,
        )
        self._server = Server(
            application(state, guard, cookie=f"headrace-{self.port}"), self._listener
        )
        self._stack = ExitStack()

    @property
    def url(self) -> str:
        """URL of the page or the metrics, with a generated token but without the user's.

        Print it, never record it.
        """
        address = self._options.bind_address
        host = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(address, address)
        host = f"[{host}]" if ":" in host else host
        path = "" if self._options.with_page else "metrics"
        is_generated = self._token is not None and self._options.token is None
        token = f"?token={self._token}" if is_generated else ""
        return f"http://{host}:{self.port}/{path}{token}"

    def write(self, results: BatchResults[Any]) -> None:
        """Show the newest frame of a batch: see `ResultSink.write`."""
        if self._options.with_page:
            self._images.show(results)

    def close(self) -> None:
        """End the server: see `ResultSink.close`."""
        self._images.close()
        self._stack.close()
        self._listener.close()

    @property
    def outputs(self) -> tuple[str, ...]:
        """No files."""
        return ()

    def __enter__(self) -> "WebView":
        self._stack.enter_context(self._server)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
