"""The web page of a run, as a sink."""

import socket
from collections.abc import Callable
from contextlib import ExitStack

from headrace.runtime.asgi_server import Server, listen
from headrace.runtime.clock import Clock
from headrace.sinks.batch_results import ClassifiedBatch, DetectedBatch
from headrace.sinks.web.access_control import Guard, new_token
from headrace.sinks.web.app import AppState, application
from headrace.sinks.web.live_image import LiveImage
from headrace.sinks.web.status import LiveStatus, StatusCache
from headrace.sinks.web.web_options import WebOptions


class WebView:
    """Serves a run from the start of its block to the end: `with WebView(...) as view: ...`.

    Between the two it is a `Sink` that shows the newest only, and costs who writes the copy of a
    frame.
    """

    def __init__(
        self,
        options: WebOptions,
        ask: Callable[[], LiveStatus],
        names: tuple[str, ...],
        *,
        clock: Clock,
    ) -> None:
        """Open the port; browsers are answered from the start of the block on.

        Args:
            options: Where, and to whom.
            ask: Gives the status of the run; called in the server's thread, at most four times a
                second, so it should take less than a millisecond or so.
            names: Of the sources, for a reader, without credentials.
            clock: The run's.

        Raises:
            ConfigError: the port cannot be opened.
        """
        self._listener = listen(options.bind_address, options.port)
        self.port: int = self._listener.getsockname()[1]
        """The one that was opened."""
        self._options = options
        self._token = options.token or (None if options.is_local else new_token())
        self._pictures = LiveImage(names, clock, options.pictures_per_second)
        own = () if options.is_local else (socket.gethostname(),)
        guard = Guard(
            is_local=options.is_local,
            hosts=frozenset(name.lower() for name in (*options.hosts, *own)),
            token=self._token,
        )
        told = AppState(
            cache=StatusCache(ask, clock),
            health_timeout_seconds=options.health_timeout_seconds,
            pictures=self._pictures if options.with_page else None,
        )
        self._server = Server(
            application(told, guard, cookie=f"headrace-{self.port}"), self._listener
        )
        self._stack = ExitStack()

    @property
    def url(self) -> str:
        """What to open, or to ask. Holds the token that was made for this start, if one was:
        print it, and record it nowhere. A token of the user's own is shown nowhere at all.
        """
        address = self._options.bind_address
        host = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(address, address)
        host = f"[{host}]" if ":" in host else host
        path = "" if self._options.with_page else "metrics"
        is_made = self._token is not None and self._options.token is None
        token = f"?token={self._token}" if is_made else ""
        return f"http://{host}:{self.port}/{path}{token}"

    def write(self, seen: ClassifiedBatch | DetectedBatch) -> None:
        """Show the newest frame of a batch: see `Sink.write`."""
        if self._options.with_page:
            self._pictures.show(seen)

    def close(self) -> None:
        """End the server: see `Sink.close`."""
        self._pictures.close()
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
