"""Remote videos: an object store on the loopback, and the variants to read from it.

The store is one folder over HTTP with ranges, with a latency per answer.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import av
import fsspec
from av.container import InputContainer
from starlette.staticfiles import StaticFiles

from headrace.runtime.asgi_server import Server, listen


@dataclass
class Served:
    """Requests to the store."""

    requests: int = 0
    sent_bytes: int = 0
    """Bytes sent, including bytes that a reader discarded."""


@contextmanager
def object_store(folder: Path, latency_seconds: float) -> Iterator[tuple[str, Served]]:
    """Serve a folder on the loopback during the block; yield its address and its counters.

    Args:
        folder: Its files are the objects.
        latency_seconds: Delay of each answer, like a store in the same region.
    """
    served, files = Served(), StaticFiles(directory=folder)

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        await receive()  # the request; the next message is the disconnect
        gone = asyncio.create_task(receive())

        async def counted(message: MutableMapping[str, Any]) -> None:
            if gone.done():
                raise ConnectionResetError("it wanted no more of it")
            if "headers" in message:  # otherwise FFmpeg would reuse the connection
                message["headers"] = [*message["headers"], (b"connection", b"close")]
            await send(message)
            served.sent_bytes += len(message.get("body", b""))

        served.requests += 1
        await asyncio.sleep(latency_seconds)
        with suppress(ConnectionResetError):
            await files(scope, receive, counted)
        gone.cancel()

    listener = listen("127.0.0.1", 0)
    with Server(answer, listener):
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", served


@dataclass
class Calls:
    """Calls of FFmpeg on a Python file; all 0 if FFmpeg reads itself."""

    reads: int = 0
    read_bytes: int = 0
    seeks: int = 0


class CountedFile:
    """Python file that counts calls."""

    def __init__(self, file: IO[bytes], calls: Calls) -> None:
        """Wrap `file`."""
        self._file, self._calls = file, calls

    def read(self, num_bytes: int = -1) -> bytes:
        """Return up to `num_bytes` bytes."""
        found = self._file.read(num_bytes)
        self._calls.reads += 1
        self._calls.read_bytes += len(found)
        return found

    def seek(self, offset: int, whence: int = 0) -> int:
        """Seek."""
        self._calls.seeks += 1
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Return the position."""
        return self._file.tell()


Opened = Callable[[Path, str], AbstractContextManager[IO[bytes]]]
"""(path, store address) of a video → file for FFmpeg."""


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
    # Default: reads 5 MB ahead, and drops earlier bytes.
    "fsspec_http": lambda _, url: _http().open(url),
    "fsspec_blocks": lambda _, url: _http().open(url, block_size=1 << 20, cache_type="blockcache"),
}
"""Variants with a Python file."""
REMOTE = ("ffmpeg_http", "fsspec_http", "fsspec_blocks", "download_first")
"""Variants that request from the store."""
WAYS = ("path", "python_file", "fsspec_local", "fsspec_memory", *REMOTE)


@contextmanager
def opened(way: str, path: Path, url: str, calls: Calls) -> Iterator[InputContainer]:
    """Open a video by one of the `WAYS` during the block; count the calls."""
    with ExitStack() as stack:
        source: Any = url if way == "ffmpeg_http" else str(path)
        if way in FILES:
            source = CountedFile(stack.enter_context(FILES[way](path, url)), calls)
        if way == "download_first":
            source = str(Path(stack.enter_context(TemporaryDirectory())) / path.name)
            _http().get_file(url, source)
        yield stack.enter_context(av.open(source, "r"))
