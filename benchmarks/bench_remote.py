"""Is it faster to read videos directly from an object store, or to copy them first?

python -m benchmarks.bench_remote --repeats 1     # a first look
python -m benchmarks.bench_remote                 # the full run, about 2 minutes

PyAV opens the same video by its path, as a Python file object, by fsspec from memory, from an HTTP
server on the loopback that delays its responses, and as a copy from this server. fsspec needs
aiohttp for HTTP; without it, these variants are recorded as failed.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import IO, Any
from zlib import crc32

import av
import fsspec
import numpy as np
from av.container import InputContainer
from av.video.frame import VideoFrame
from pydantic import AliasChoices, Field, model_validator
from starlette.staticfiles import StaticFiles

from benchmarks.kit import Benchmark, begin, rounds
from benchmarks.markdown import known, machine, table
from benchmarks.media import DEFAULT_ROOT, loop_media, paths
from benchmarks.record import Repeat, Rows, Timed
from benchmarks.worker import Ask, Meter, WorkerError, ask_worker
from headrace.runtime.asgi_server import Server, listen

PATTERNS = {"scan": "scan", "every": "every frame", "random": "16 random frames"}
LATENCIES_MS = (0, 20)
_TIMES = 8
"""Number of times that the video repeats a clip of 10 s."""
_RANDOM_FRAMES = 16
_GOLDEN = 0.6180339887498949


class RemoteRepeat(Repeat):
    """One repetition; `seeks` are FFmpeg's calls on a Python file object."""

    reads: int
    """FFmpeg's `read` calls on a Python file object; 0 if FFmpeg reads the file itself."""
    read_bytes: int
    requests: int
    """Requests answered by the store."""
    sent_bytes: int
    """Bytes sent by the store."""

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """Accept older records, which have the times in a nested record."""
        return {**fields.pop("repeat", {}), **fields} if "repeat" in fields else fields


class RemoteRow(Timed):
    """One variant, pattern and latency."""

    way: str
    pattern: str
    latency_ms: int | None = None
    """Latency of the store; None: no store."""
    repeats: tuple[RemoteRepeat, ...] = Field(
        default=(), validation_alias=AliasChoices("repeats", "turns")
    )


class RemoteResult(Rows[RemoteRow]):
    """All rows."""

    file_bytes: int
    """Bytes of the video."""
    frames: int
    """Frames of the video."""


def measure(*, media: Path = DEFAULT_ROOT, repeats: int = 3) -> Iterator[RemoteResult]:
    """Time all variants of each access pattern.

    Args:
        media: folder of the videos
        repeats: repeats per variant
    """
    video = loop_media(paths(media, "web", 1)[0], _TIMES).resolve()
    rows = [row for pattern in PATTERNS for row in contest(video, pattern, repeats)]
    yield RemoteResult(
        **begin(repeats=repeats),
        file_bytes=video.stat().st_size,
        frames=max(repeat.frames for row in rows for repeat in row.repeats),
        rows=tuple(rows),
    )


def contest(
    video: Path,
    pattern: str,
    repeats: int,
    latencies_ms: Sequence[int] = LATENCIES_MS,
    ask: Ask = ask_worker,
) -> list[RemoteRow]:
    """Return all variants, interleaved; a variant whose frames differ from the path's fails."""
    local = [(way, None) for way in VARIANTS if way not in REMOTE]
    rows = [
        RemoteRow(way=way, pattern=pattern, latency_ms=latency)
        for way, latency in (*local, *((way, ms) for ms in latencies_ms for way in REMOTE))
    ]
    expected: list[int] = []

    def take(row: RemoteRow) -> RemoteRow:
        with object_store(video.parent, (row.latency_ms or 0) / 1e3) as (address, served):
            request = {"case": "bench_remote", "way": row.way, "pattern": pattern}
            answer = ask({**request, "path": str(video), "url": f"{address}/{video.name}"})
        expected.append(answer.pop("checksum"))
        if expected[-1] != expected[0]:
            raise WorkerError("its frames differ from the local file's")
        return row.timed(RemoteRepeat(**answer, **served))

    *_, rows = rounds(rows, take, repeats)
    return rows


def answer(*, way: str, path: str, url: str, pattern: str) -> dict[str, Any]:
    """Time reading a video: `scan` its packets, decode `every` frame, or some `random` frames.

    `checksum` covers the luma of the frames, to compare variants.
    """
    calls, meter = Counter(reads=0, read_bytes=0, seeks=0), Meter()
    frames = checksum = 0
    with opened(way, Path(path), url, calls) as container:
        container.streams.video[0].thread_type = "AUTO"
        for chunk in _READ[pattern](container):
            frames += 1
            checksum = crc32(chunk, checksum)
        times = meter.read()
    return {**times, **calls, "frames": frames, "checksum": checksum}


def _random(container: InputContainer) -> Iterator[bytes]:
    stream = container.streams.video[0]
    assert stream.duration is not None
    for number in range(_RANDOM_FRAMES):
        wanted = int((number * _GOLDEN % 1) * stream.duration * 0.99)
        container.seek(wanted, stream=stream)
        for frame in container.decode(stream):
            if frame.pts is not None and frame.pts + (frame.duration or 1) > wanted:
                yield _brightness(frame)
                break


def _brightness(frame: VideoFrame) -> bytes:
    """Return every 16th line of luma: enough to distinguish frames, and cheap."""
    plane = frame.planes[0]
    lines = np.frombuffer(bytes(plane), np.uint8).reshape(-1, plane.line_size)
    return bytes(lines[::16, : plane.width].tobytes())


_READ: Mapping[str, Callable[[InputContainer], Iterable[bytes]]] = {
    "scan": lambda video: (p.size.to_bytes(8, "big") for p in video.demux(video=0) if p.size),
    "every": lambda video: map(_brightness, video.decode(video=0)),
    "random": _random,
}


VARIANTS = {
    "path": "local path",
    "python_file": "Python file object",
    "fsspec_local": "fsspec, local file",
    "fsspec_memory": "fsspec, in memory",
    "ffmpeg_http": "FFmpeg's HTTP",
    "fsspec_http": "fsspec's HTTP, 5 MB read-ahead",
    "fsspec_blocks": "fsspec's HTTP, cached blocks of 1 MiB",
    "download_first": "copied first",
}
REMOTE = tuple(VARIANTS)[4:]
"""Variants that read from the store."""


def remote(result: RemoteResult) -> str:
    """Return a line per variant and latency: seconds, requests and transferred bytes."""
    header = ["", *(f"{words}, s" for words in PATTERNS.values())]
    header += [f"requests, MB ({words})" for words in PATTERNS.values()]
    by_key: dict[tuple[str, int | None], dict[str, RemoteRow]] = {}
    for row in result.rows:
        by_key.setdefault((row.way, row.latency_ms), {})[row.pattern] = row
    lines = []
    for (way, latency), rows in by_key.items():
        delay = "" if latency is None else f"; {latency} ms"
        cells = [rows.get(pattern) for pattern in PATTERNS]
        seconds = [
            known(row, lambda row: f"{median(row.values('wall_seconds')):.2f}") for row in cells
        ]
        lines.append([f"{VARIANTS[way]}{delay}", *seconds, *map(_traffic, cells)])
    calls = ", ".join(
        f"{row.repeats[0].reads} reads and {row.repeats[0].seeks} seeks ({PATTERNS[pattern]})"
        for pattern, row in by_key.get(("python_file", None), {}).items()
        if row.repeats
    )
    others = [share for row in result.rows for share in row.values("others_share")]
    notes = (
        f"One video of {result.frames:,} frames, {result.file_bytes / 1e6:.0f} MB, H.264, "
        f"1280×720; median of {result.provenance.configuration['repeats']} interleaved rounds. "
        "Each run is a process, timed from opening the video. A server on the loopback delays each "
        "response by the given latency; its bandwidth is not limited. All variants read equal "
        f"frames. Calls of FFmpeg on the Python file object: {calls}. Other programs used up to "
        f"{max(others, default=0):.0%} of the CPU time. {machine(result)}"
    )
    return table(header, lines, notes)


def _traffic(row: RemoteRow | None) -> str:
    if row is None or row.latency_ms is None or not row.repeats:
        return ""
    return f"{median(row.values('requests')):.0f}, {median(row.values('sent_bytes')) / 1e6:.1f}"


@contextmanager
def object_store(folder: Path, latency_seconds: float) -> Iterator[tuple[str, Counter[str]]]:
    """Serve a folder on the loopback during the block; yield its address and counters.

    The counters are `requests`, and `sent_bytes` including bytes that the reader discarded.

    Args:
        folder: Folder whose files are the objects.
        latency_seconds: Delay of each response, like that of a store in the same region.
    """
    served, files = Counter(requests=0, sent_bytes=0), StaticFiles(directory=folder)

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        await receive()  # the request; the next message is the disconnect
        disconnect = asyncio.create_task(receive())

        async def counted(message: MutableMapping[str, Any]) -> None:
            if disconnect.done():
                raise ConnectionResetError("the client closed the connection")
            if "headers" in message:  # without this header, FFmpeg reuses the connection
                message["headers"] = [*message["headers"], (b"connection", b"close")]
            await send(message)
            served["sent_bytes"] += len(message.get("body", b""))

        served["requests"] += 1
        await asyncio.sleep(latency_seconds)
        with suppress(ConnectionResetError):
            await files(scope, receive, counted)
        disconnect.cancel()

    listener = listen("127.0.0.1", 0)
    with Server(answer, listener):
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", served


class CountedFile:
    """Python file object that counts its calls: `reads`, their `read_bytes`, and `seeks`."""

    def __init__(self, file: IO[bytes], calls: Counter[str]) -> None:
        """Wrap `file`."""
        self._file, self._calls, self.tell = file, calls, file.tell

    def read(self, num_bytes: int = -1) -> bytes:
        """Return up to `num_bytes` bytes."""
        data = self._file.read(num_bytes)
        self._calls.update(reads=1, read_bytes=len(data))
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        """Seek."""
        self._calls["seeks"] += 1
        return self._file.seek(offset, whence)


Opened = Callable[[Path, str], AbstractContextManager[IO[bytes]]]
"""(path, URL in the store) of a video → Python file object."""


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
    # The default reads 5 MB ahead and drops earlier bytes.
    "fsspec_http": lambda _, url: _http().open(url),
    "fsspec_blocks": lambda _, url: _http().open(url, block_size=1 << 20, cache_type="blockcache"),
}
"""Variants that read through a Python file object."""


@contextmanager
def opened(way: str, path: Path, url: str, calls: Counter[str]) -> Iterator[InputContainer]:
    """Open a video as one of the `VARIANTS` during the block; count the calls."""
    with ExitStack() as stack:
        source: Any = url if way == "ffmpeg_http" else str(path)
        if way in FILES:
            source = CountedFile(stack.enter_context(FILES[way](path, url)), calls)
        if way == "download_first":
            source = str(Path(stack.enter_context(TemporaryDirectory())) / path.name)
            _http().get_file(url, source)
        yield stack.enter_context(av.open(source, "r"))


BENCHMARK = Benchmark("remote", __doc__, measure, remote)

if __name__ == "__main__":
    BENCHMARK.main()
