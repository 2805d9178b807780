"""A store of objects: one folder over HTTP with ranges, each answer as late as it would be."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

_PIECE = 1 << 16


@dataclass
class Served:
    """What was asked of the store."""

    requests: int = 0
    sent_bytes: int = 0
    """Taken by the network: what a reader gave up on may be among it."""
    lock: Lock = field(default_factory=Lock)

    def count(self, requests: int, sent_bytes: int) -> None:
        """Add to both."""
        with self.lock:
            self.requests += requests
            self.sent_bytes += sent_bytes


@contextmanager
def object_store(folder: Path, latency_seconds: float) -> Iterator[tuple[str, Served]]:
    """Serve a folder on the loopback while the block runs; give its address, and what it served.

    Args:
        folder: Its files are the objects.
        latency_seconds: Waited before each answer, as a store in the same region takes.
    """
    served = Served()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(folder, latency_seconds, served))
    server.daemon_threads = False
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(folder: Path, latency_seconds: float, served: Served) -> type[BaseHTTPRequestHandler]:
    late = Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 5.0

        def do_HEAD(self) -> None:  # the name that http.server calls
            self._answer(with_body=False)

        def do_GET(self) -> None:  # the name that http.server calls
            self._answer(with_body=True)

        def _answer(self, *, with_body: bool) -> None:
            late.wait(latency_seconds)
            path = folder / self.path.lstrip("/")
            size = path.stat().st_size
            start, stop, is_part = _range(self.headers.get("Range"), size)
            self.send_response(HTTPStatus.PARTIAL_CONTENT if is_part else HTTPStatus.OK)
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("Connection", "close")  # or FFmpeg would ask on it again
            self.send_header("Content-Length", str(stop - start))
            if is_part:
                self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{size}")
            self.end_headers()
            served.count(1, self._send(path, start, stop) if with_body else 0)

        def _send(self, path: Path, start: int, stop: int) -> int:
            sent = 0
            with path.open("rb") as file:
                file.seek(start)
                try:
                    while start + sent < stop:
                        sent += self.wfile.write(file.read(min(_PIECE, stop - start - sent)))
                except OSError:  # it wanted no more of it
                    self.close_connection = True
            return sent

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    return Handler


def _range(asked: str | None, size: int) -> tuple[int, int, bool]:
    """Return start and stop of the bytes that are asked for, and whether they are a part."""
    if asked is None:
        return 0, size, False
    first, _, last = asked.removeprefix("bytes=").partition("-")
    if not first:
        return max(0, size - int(last)), size, True
    return int(first), min(size, int(last) + 1) if last else size, True
