"""Can videos be read where they lie, in a store of objects, or are they better copied first?

python -m benchmarks.bench_remote --repeats 1     # a first look
python -m benchmarks.bench_remote                 # a record that is kept, about two minutes

Each variant opens the same video for PyAV: by its path, as a Python file, by fsspec from memory and
from an HTTP server on the loopback that waits before it answers, and copied from there first.
fsspec needs aiohttp for HTTP: without it those ways are kept as failed.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any
from zlib import crc32

import numpy as np
from av.container import InputContainer
from av.video.frame import VideoFrame

from benchmarks.kit import Benchmark, begin, rounds
from benchmarks.markdown import machine, table
from benchmarks.media import DEFAULT_ROOT, loop_media, paths
from benchmarks.record import Repeat, Result, Tried
from benchmarks.remote import REMOTE, WAYS, Calls, object_store, opened
from benchmarks.worker import Ask, Meter, WorkerError, ask_worker
from headrace.profiling.provenance import Record

PATTERNS = {"scan": "scan", "every": "every frame", "random": "16 random frames"}
LATENCIES_MS = (0, 20)
_TIMES = 8
"""Repetitions of a clip of 10 s in the video."""
_PLACES = 16
_GOLDEN = 0.6180339887498949


class Turn(Record):
    """One repetition, in its own process."""

    repeat: Repeat
    reads: int
    """`read` calls of FFmpeg on a Python file; 0 if FFmpeg reads itself."""
    read_bytes: int
    seeks: int
    requests: int
    """Requests answered by the store."""
    sent_bytes: int
    """Bytes sent by the store."""


class RemoteRow(Tried):
    """One variant, pattern and latency."""

    way: str
    pattern: str
    latency_ms: int | None = None
    """Latency; None: no store."""
    turns: tuple[Turn, ...] = ()

    @property
    def seconds(self) -> float:
        """Median seconds of a repetition."""
        return median(turn.repeat.wall_seconds for turn in self.turns)

    @property
    def count(self) -> int:
        """Number of repetitions."""
        return len(self.turns)

    @property
    def progress(self) -> str:
        """Last repetition, as printed."""
        return f"{self.turns[-1].repeat.wall_seconds:.2f} s"


class RemoteResult(Result):
    """All rows."""

    file_bytes: int
    """Bytes of the video."""
    frames: int
    """Frames of the video."""
    rows: tuple[RemoteRow, ...]


def measure(*, media: Path = DEFAULT_ROOT, repeats: int = 3) -> Iterator[RemoteResult]:
    """Time one pattern after the other.

    Args:
        media: their folder
        repeats: of each, in turn
    """
    video = loop_media(paths(media, "web", 1)[0], _TIMES).resolve()
    rows = [row for pattern in PATTERNS for row in contest(video, pattern, repeats)]
    yield RemoteResult(
        **begin(repeats=repeats),
        file_bytes=video.stat().st_size,
        frames=max(turn.repeat.frames for row in rows for turn in row.turns),
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
    rows = [RemoteRow(way=way, pattern=pattern) for way in WAYS if way not in REMOTE]
    rows += [
        RemoteRow(way=way, pattern=pattern, latency_ms=latency)
        for latency in latencies_ms
        for way in REMOTE
    ]
    expected: list[int] = []

    def take(row: RemoteRow) -> RemoteRow:
        with object_store(video.parent, (row.latency_ms or 0) / 1e3) as (address, served):
            asked = {"case": "bench_remote", "way": row.way, "pattern": pattern}
            answer = ask({**asked, "path": str(video), "url": f"{address}/{video.name}"})
        expected.append(answer.pop("checksum"))
        if expected[-1] != expected[0]:
            raise WorkerError("other frames than by the path")
        turn = Turn(**answer, requests=served.requests, sent_bytes=served.sent_bytes)
        return row.model_copy(update={"turns": (*row.turns, turn)})

    *_, rows = rounds(rows, take, repeats)
    return rows


def answer(*, way: str, path: str, url: str, pattern: str) -> dict[str, Any]:
    """Read a video: `scan` its packets, decode `every` frame, or some `random` frames.

    `checksum` is of the frames' luma, to compare variants.
    """
    calls, meter = Calls(), Meter()
    frames = checksum = 0
    with opened(way, Path(path), url, calls) as container:
        for chunk in _READ[pattern](container):
            frames += 1
            checksum = crc32(chunk, checksum)
        spent = meter.read()
    return {
        "repeat": {**spent, "frames": frames},
        "reads": calls.reads,
        "read_bytes": calls.read_bytes,
        "seeks": calls.seeks,
        "checksum": checksum,
    }


def _scanned(container: InputContainer) -> Iterator[bytes]:
    for packet in container.demux(video=0):
        if packet.size:
            yield packet.size.to_bytes(8, "big")


def _every(container: InputContainer) -> Iterator[bytes]:
    container.streams.video[0].thread_type = "AUTO"
    for frame in container.decode(video=0):
        yield _brightness(frame)


def _random(container: InputContainer) -> Iterator[bytes]:
    stream = container.streams.video[0]
    stream.thread_type = "AUTO"
    assert stream.duration is not None
    for place in range(_PLACES):
        wanted = int((place * _GOLDEN % 1) * stream.duration * 0.99)
        container.seek(wanted, stream=stream)
        for frame in container.decode(stream):
            if frame.pts is not None and frame.pts + (frame.duration or 1) > wanted:
                yield _brightness(frame)
                break


def _brightness(frame: VideoFrame) -> bytes:
    """Return every 16th line: enough to distinguish frames, and cheap beside decoding."""
    plane = frame.planes[0]
    lines = np.frombuffer(bytes(plane), np.uint8).reshape(-1, plane.line_size)
    return bytes(lines[::16, : plane.width].tobytes())


_READ = {"scan": _scanned, "every": _every, "random": _random}


_SAID = {
    "path": "a path",
    "python_file": "a file that Python opened",
    "fsspec_local": "fsspec, local",
    "fsspec_memory": "fsspec, in memory",
    "ffmpeg_http": "FFmpeg by itself",
    "fsspec_http": "fsspec, 5 MB ahead",
    "fsspec_blocks": "fsspec, blocks of 1 MiB kept",
    "download_first": "copied first",
}


def remote(result: RemoteResult) -> str:
    """Return a line per variant and latency: seconds, and network traffic."""
    header = ["", *(f"{words}, s" for words in PATTERNS.values())]
    header += [f"requests, MB: {words}" for words in PATTERNS.values()]
    by_key: dict[tuple[str, int | None], dict[str, RemoteRow]] = {}
    for row in result.rows:
        by_key.setdefault((row.way, row.latency_ms), {})[row.pattern] = row
    lines = []
    for (way, latency), rows in by_key.items():
        late = "" if latency is None else f"; {latency} ms"
        cells = [rows.get(pattern) for pattern in PATTERNS]
        lines.append([f"{_SAID[way]}{late}", *map(_time, cells), *map(_asked, cells)])
    asked = ", ".join(
        f"{row.turns[0].reads} reads and {row.turns[0].seeks} seeks ({PATTERNS[pattern]})"
        for pattern, row in by_key.get(("python_file", None), {}).items()
        if row.turns
    )
    others = [s for row in result.rows for t in row.turns if (s := t.repeat.others_share)]
    notes = (
        f"One video of {result.frames:,} frames, {result.file_bytes / 1e6:.0f} MB, H.264, "
        f"1280×720; median of {result.provenance.configuration['repeats']} turns, each in a "
        "process of its own, from opening on. A server on the loopback waits so long before each "
        "answer; its bandwidth is not limited. The frames of all variants are the same. Of a "
        f"Python file FFmpeg asks {asked}. Other work took {max(others, default=0):.0%} of the CPU "
        f"time in the worst turn. {machine(result)}"
    )
    return f"{table(header, lines)}\n\n{notes}"


def _time(row: RemoteRow | None) -> str:
    if row is None:
        return "not measured"
    return row.missing or f"{row.seconds:.2f}"


def _asked(row: RemoteRow | None) -> str:
    if row is None or row.latency_ms is None or not row.turns:
        return ""
    requests = median(turn.requests for turn in row.turns)
    sent = median(turn.sent_bytes for turn in row.turns)
    return f"{requests:.0f}, {sent / 1e6:.1f}"


BENCHMARK = Benchmark("remote", __doc__, measure, remote)

if __name__ == "__main__":
    BENCHMARK.main()
