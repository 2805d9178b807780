"""Videos that do not lie on the machine: a store of objects, and the ways to a video's bytes.

The store is one folder over HTTP with ranges, each answer as late as it would be.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Lock, Thread
from typing import IO, Any

import av
import fsspec
from av.container import InputContainer

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


@dataclass
class Calls:
    """What FFmpeg asked of a Python file; all 0 where it reads by itself."""

    reads: int = 0
    read_bytes: int = 0
    seeks: int = 0


class CountedFile:
    """A Python file that counts."""

    def __init__(self, file: IO[bytes], calls: Calls) -> None:
        """Take over the reading of `file`."""
        self._file, self._calls = file, calls

    def read(self, num_bytes: int = -1) -> bytes:
        """Return up to so many bytes."""
        found = self._file.read(num_bytes)
        self._calls.reads += 1
        self._calls.read_bytes += len(found)
        return found

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to another place."""
        self._calls.seeks += 1
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Return the place."""
        return self._file.tell()


Opened = Callable[[Path, str], AbstractContextManager[IO[bytes]]]
"""A video's path, its address in the store → the file that FFmpeg reads."""


def _http() -> Any:
    return fsspec.filesystem("http", skip_instance_cache=True)


def _in_memory(path: Path, _: str) -> Any:
    memory = fsspec.filesystem("memory")
    if not memory.exists(path.name):
        memory.pipe(path.name, path.read_bytes())
    return memory.open(path.name, "rb")


FILES: Mapping[str, Opened] = {
    "python_file": lambda path, _: path.open("rb"),
    "fsspec_local": lambda path, _: fsspec.open(f"file://{path}", "rb"),
    "fsspec_memory": _in_memory,
    # As it comes: it reads 5 MB ahead, and forgets what lies behind.
    "fsspec_http": lambda _, url: _http().open(url),
    "fsspec_blocks": lambda _, url: _http().open(url, block_size=1 << 20, cache_type="blockcache"),
}
"""Ways by a Python file."""
REMOTE = ("ffmpeg_http", "fsspec_http", "fsspec_blocks", "download_first")
"""Those that ask the store."""
WAYS = ("path", "python_file", "fsspec_local", "fsspec_memory", *REMOTE)


@contextmanager
def opened(way: str, path: Path, url: str, calls: Calls) -> Iterator[InputContainer]:
    """Open a video in one of the `WAYS` while the block runs; what a file is asked is counted."""
    with ExitStack() as stack:
        source: Any = url if way == "ffmpeg_http" else str(path)
        if way in FILES:
            source = CountedFile(stack.enter_context(FILES[way](path, url)), calls)
        if way == "download_first":
            source = str(Path(stack.enter_context(TemporaryDirectory())) / path.name)
            _http().get_file(url, source)
        yield stack.enter_context(av.open(source, "r"))
