"""Videos that do not lie on the machine: a store of objects, and the ways to a video's bytes.

The store is one folder over HTTP with ranges, each answer as late as it would be.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
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


Reader = Callable[[Path, str, Calls], AbstractContextManager[InputContainer]]
"""A video's path, its address in the store → it, open; what is asked of files is counted."""


@contextmanager
def path(path: Path, url: str, calls: Calls) -> Iterator[InputContainer]:
    """FFmpeg opens the file."""
    with av.open(str(path)) as container:
        yield container


@contextmanager
def python_file(path: Path, url: str, calls: Calls) -> Iterator[InputContainer]:
    """A file that Python opened."""
    with path.open("rb") as file, _counted(file, calls) as container:
        yield container


@contextmanager
def fsspec_local(path: Path, url: str, calls: Calls) -> Iterator[InputContainer]:
    """The same by fsspec."""
    with fsspec.open(f"file://{path}", "rb") as file, _counted(file, calls) as container:
        yield container


@contextmanager
def fsspec_memory(path: Path, url: str, calls: Calls) -> Iterator[InputContainer]:
    """Bytes that are in memory already."""
    memory = fsspec.filesystem("memory")
    if not memory.exists(path.name):
        memory.pipe(path.name, path.read_bytes())
    with memory.open(path.name, "rb") as file, _counted(file, calls) as container:
        yield container


@contextmanager
def fsspec_http(path: Path, url: str, calls: Calls) -> Iterator[InputContainer]:
    """The store by fsspec as it comes: it reads 5 MB ahead, and forgets what lies behind."""
    with _http().open(url) as file, _counted(file, calls) as container:
        yield container


@contextmanager
def fsspec_blocks(path: Path, url: str, calls: Calls) -> Iterator[InputContainer]:
    """The store by fsspec with blocks of 1 MiB that are kept."""
    with (
        _http().open(url, block_size=1 << 20, cache_type="blockcache") as file,
        _counted(file, calls) as container,
    ):
        yield container


@contextmanager
def ffmpeg_http(path: Path, url: str, calls: Calls) -> Iterator[InputContainer]:
    """The store by FFmpeg itself."""
    with av.open(url) as container:
        yield container


@contextmanager
def download_first(path: Path, url: str, calls: Calls) -> Iterator[InputContainer]:
    """The whole object into a file, which FFmpeg opens."""
    with TemporaryDirectory() as folder:
        local = Path(folder) / path.name
        _http().get_file(url, str(local))
        with av.open(str(local)) as container:
            yield container


def _http() -> Any:
    return fsspec.filesystem("http", skip_instance_cache=True)


@contextmanager
def _counted(file: IO[bytes], calls: Calls) -> Iterator[InputContainer]:
    with av.open(CountedFile(file, calls), "r") as container:
        yield container


READERS: Mapping[str, Reader] = {
    "path": path,
    "python_file": python_file,
    "fsspec_local": fsspec_local,
    "fsspec_memory": fsspec_memory,
    "ffmpeg_http": ffmpeg_http,
    "fsspec_http": fsspec_http,
    "fsspec_blocks": fsspec_blocks,
    "download_first": download_first,
}
REMOTE = ("ffmpeg_http", "fsspec_http", "fsspec_blocks", "download_first")
"""Those that ask the store."""
