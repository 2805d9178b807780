"""Web application: page, status, images, metrics and health."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib import resources
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.sinks.web.access_control import Guard, RequestInfo
from headrace.sinks.web.live_image import LiveImage
from headrace.sinks.web.prometheus import CONTENT_TYPE, metrics_text
from headrace.sinks.web.status import StatusCache, health

IMAGE_SECONDS: Final = 5.0
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


@dataclass(frozen=True, kw_only=True)
class AppState:
    """State of the run that the server reads."""

    cache: StatusCache
    health_timeout_seconds: float
    images: LiveImage | None
    """None: no page."""


def application(state: AppState, guard: Guard, cookie: str) -> ASGIApp:
    """Return the ASGI application; browsers keep the token in the cookie `cookie`."""
    cache = state.cache

    async def metrics(request: Request) -> Response:
        return Response(metrics_text(cache.status()), headers={"content-type": CONTENT_TYPE})

    async def run_health(request: Request) -> Response:
        result = health(cache.status(), state.health_timeout_seconds)
        status = 200 if result.is_good else 503
        return Response(result.model_dump_json(), status, media_type="application/json")

    async def status_json(request: Request) -> Response:
        return Response(cache.text(), media_type="application/json")

    routes = [Route("/metrics", metrics), Route("/health", run_health)]
    if state.images is not None:
        routes += [
            Route("/", _page(None if guard.token is None else cookie)),
            *(Route(path, _file(path[1:], kind)) for path, kind in _FILES.items()),
            Route("/status.json", status_json),
            Route("/picture.jpg", _image(state.images)),
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
            RequestInfo(
                method=request.method,
                headers=request.headers,
                query_token=request.query_params.get("token"),
                cookie_token=request.cookies.get(cookie),
            )
        )
        if denial is None:
            await app(scope, receive, send_with_headers)
            return
        response = _text(f"{denial.reason}\n", denial.status)
        if denial.status == 405:
            response.headers["allow"] = "GET, HEAD"
        if denial.status == 401:
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
        image = await images.next(int(after), IMAGE_SECONDS)
        if image is None:
            return Response(status_code=204)
        headers = {"picture-number": str(image.number)}
        return Response(image.jpeg, media_type="image/jpeg", headers=headers)

    return respond


def _text(text: str, status: int) -> Response:
    return Response(text, status, media_type="text/plain; charset=utf-8")
