"""Web page of a run, as a sink: live image, server application, metrics and health."""

import asyncio
import io
import socket
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.runtime.asgi_server import Server, UpdateCounter, listen
from headrace.runtime.clock import Clock
from headrace.sinks.batch_results import BatchResults
from headrace.sinks.painting import LatestImages
from headrace.sinks.web.prometheus import CONTENT_TYPE, metrics_text
from headrace.sinks.web.status import LiveStatus, StatusCache, health
from headrace.sinks.web.web_options import Guard, WebOptions, new_token

MAX_IMAGES_PER_SECOND: Final = 150
"""Max images per second, over all browsers. Each holds the interpreter for about 0.5 ms. Fifty
browsers get three images per second each."""
_QUALITY: Final = 80


def interval_seconds(viewers: int, images_per_second: float) -> float:
    """Return the time between images, for a number of browsers."""
    return max(1 / images_per_second, viewers / MAX_IMAGES_PER_SECOND)


@dataclass(frozen=True)
class JpegImage:
    """JPEG with its number; browsers request an image newer than this number."""

    number: int
    jpeg: bytes


class LiveImage:
    """Live image: frames come from the run's thread, images are encoded in the server's thread.

    Without a browser, no image is encoded. A browser requests the next image when it has shown the
    last one, and receives the latest. Pushed images (multipart) would queue in socket buffers:
    2.8 MB per browser, about 20 images.
    """

    def __init__(self, names: tuple[str, ...], clock: Clock, images_per_second: float) -> None:
        """Start without frames; `names`: names of the sources, for captions."""
        self._latest_images = LatestImages(names, clock)
        self._clock = clock
        self._images_per_second = images_per_second
        self._newest = UpdateCounter()
        self._viewers = 0
        self._image = JpegImage(0, b"")
        self._due_ns = 0

    def show(self, results: BatchResults[Any]) -> None:
        """Keep the newest frame of a batch; copies it. From one thread."""
        self._latest_images.show(results)
        self._newest.increase()

    async def next(self, after: int, seconds: float) -> JpegImage | None:
        """Return an image newer than number `after`; None after `seconds` without one.

        For the server's thread. A number above the latest is from an earlier run.
        """
        after = 0 if after > self._newest.number else after
        self._viewers += 1
        try:
            if not await self._newest.wait(after, seconds):
                return None
            # All waiting browsers get the same image at the same time.
            await asyncio.sleep(max(0, self._due_ns - self._clock.now_ns()) / 1e9)
            return self._encode(after)
        finally:
            self._viewers -= 1

    def close(self) -> None:
        """End the wait of every browser: no frame follows."""
        self._newest.close()

    def _encode(self, after: int) -> JpegImage:
        """Return a new image, or the one just encoded for another browser."""
        now_ns = self._clock.now_ns()
        if self._image.number > after and now_ns < self._due_ns:
            return self._image
        pause = interval_seconds(self._viewers, self._images_per_second)
        self._due_ns = now_ns + round(pause * 1e9)
        number, file = self._newest.number, io.BytesIO()
        self._latest_images.image().save(file, "JPEG", quality=_QUALITY)
        self._image = JpegImage(number, file.getvalue())
        return self._image


_IMAGE_SECONDS: Final = 5.0
"""Max seconds that a request waits for an image; the browser then repeats it."""
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' blob: data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = (
    (b"content-security-policy", _POLICY.encode()),
    (b"cache-control", b"no-store"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)
_FILES: Final = {
    "/page.css": "text/css; charset=utf-8",
    "/page.js": "text/javascript; charset=utf-8",
}
_Endpoint = Callable[[Request], Awaitable[Response]]


def application(
    cache: StatusCache,
    images: LiveImage | None,
    guard: Guard,
    *,
    cookie: str,
    health_timeout_seconds: float,
) -> ASGIApp:
    """Return the ASGI application of a run.

    Args:
        cache: Status of the run.
        images: Live image; None: no page.
        guard: Access control.
        cookie: Cookie in which browsers keep the token.
        health_timeout_seconds: See `health`.
    """

    async def metrics(request: Request) -> Response:
        return Response(metrics_text(cache.status()), headers={"content-type": CONTENT_TYPE})

    async def run_health(request: Request) -> Response:
        result = health(cache.status(), health_timeout_seconds)
        status = 200 if result.is_good else 503
        return Response(result.model_dump_json(), status, media_type="application/json")

    async def status_json(request: Request) -> Response:
        return Response(cache.text(), media_type="application/json")

    routes = [Route("/metrics", metrics), Route("/health", run_health)]
    if images is not None:
        routes += [
            Route("/", _page(None if guard.token is None else cookie)),
            *(Route(path, _file(path[1:], kind)) for path, kind in _FILES.items()),
            Route("/status.json", status_json),
            Route("/picture.jpg", _image(images)),
        ]
    return _guarded(Router(routes, redirect_slashes=False), guard, cookie)


def _guarded(app: ASGIApp, guard: Guard, cookie: str) -> ASGIApp:
    """Return the application behind the guard, with security headers on every response."""

    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        request = Request(scope)
        denial = guard.check(
            request.method,
            request.headers,
            query_token=request.query_params.get("token"),
            cookie_token=request.cookies.get(cookie),
        )
        if denial is None:
            await app(scope, receive, send_with_headers)
            return
        status, reason = denial
        response = _text(f"{reason}\n", status)
        if status == 405:
            response.headers["allow"] = "GET, HEAD"
        if status == 401:
            response.headers["www-authenticate"] = "Bearer"
        await response(scope, receive, send_with_headers)

    return respond


def _page(cookie: str | None) -> _Endpoint:
    page = _file("page.html", "text/html; charset=utf-8")

    async def respond(request: Request) -> Response:
        token = request.query_params.get("token")
        if token is None or cookie is None:
            return await page(request)
        # Redirect, so that the token is not in the address: neither in the history nor on screen.
        response = RedirectResponse("./", 303)
        response.set_cookie(cookie, token, httponly=True, samesite="lax")
        return response

    return respond


def _file(name: str, kind: str) -> _Endpoint:
    content = (resources.files("headrace.sinks.web") / "page" / name).read_bytes()

    async def respond(request: Request) -> Response:
        return Response(content, media_type=kind)

    return respond


def _image(images: LiveImage) -> _Endpoint:
    async def respond(request: Request) -> Response:
        after = request.query_params.get("after", "0")
        if not (after.isascii() and after.isdigit() and len(after) < 16):
            return _text("after must be the number of the previous image\n", 400)
        image = await images.next(int(after), _IMAGE_SECONDS)
        if image is None:
            return Response(status_code=204)
        headers = {"picture-number": str(image.number)}
        return Response(image.jpeg, media_type="image/jpeg", headers=headers)

    return respond


def _text(text: str, status: int) -> Response:
    return Response(text, status, media_type="text/plain; charset=utf-8")


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
        app = application(
            StatusCache(read_status, clock),
            self._images if options.with_page else None,
            guard,
            cookie=f"headrace-{self.port}",
            health_timeout_seconds=options.health_timeout_seconds,
        )
        self._server = Server(app, self._listener)
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
