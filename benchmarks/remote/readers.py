"""The ways in which FFmpeg gets at the bytes of a video: each opens one for PyAV."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import av
import fsspec
from av.container import InputContainer


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
