"""Can videos be read where they lie, in a store of objects, or are they better copied first?

python -m benchmarks.bench_remote --repeats 1     # a first look
python -m benchmarks.bench_remote                 # a record that is kept, about two minutes

Each way opens the same video for PyAV: by its path, as a Python file, by fsspec from memory and
from an HTTP server on the loopback that waits before it answers, and copied from there first.
fsspec needs aiohttp for HTTP: without it those ways are kept as failed.
"""

from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any
from zlib import crc32

import numpy as np
from av.container import InputContainer
from av.video.frame import VideoFrame

from benchmarks import media
from benchmarks.kit import MEDIA, Benchmark, flag
from benchmarks.markdown import machine, table
from benchmarks.record import Repeat, Result, origin
from benchmarks.remote import READERS, REMOTE, Calls, object_store
from benchmarks.resources import Meter
from benchmarks.worker import Ask, WorkerError, ask_worker
from headrace.profiling.provenance import Record

PATTERNS = {"scan": "scan", "every": "every frame", "random": "16 random frames"}
LATENCIES_MS = (0, 20)
_TIMES = 8
"""That a clip of 10 s is repeated in the video."""
_PLACES = 16
_GOLDEN = 0.6180339887498949


class Turn(Record):
    """One reading, in a process of its own."""

    repeat: Repeat
    reads: int
    """Calls of `read` that FFmpeg made on a Python file; 0 where it reads by itself."""
    read_bytes: int
    seeks: int
    requests: int
    """That the store answered."""
    sent_bytes: int
    """That it sent."""


class RemoteRow(Record):
    """A way, a pattern, a latency."""

    way: str
    pattern: str
    latency_ms: int | None = None
    """None: it asks no store."""
    turns: tuple[Turn, ...] = ()
    failure: str | None = None

    @property
    def seconds(self) -> float:
        """The median turn."""
        return median(each.repeat.wall_seconds for each in self.turns)


class RemoteResult(Result):
    """All of them."""

    file_bytes: int
    """Of the video."""
    frames: int
    """In it."""
    rows: tuple[RemoteRow, ...]

    def row(self, way: str, pattern: str, latency_ms: int | None) -> RemoteRow | None:
        """Return one of them, if it was measured."""
        key = (way, pattern, latency_ms)
        found = [row for row in self.rows if (row.way, row.pattern, row.latency_ms) == key]
        return found[0] if found else None


def measure(options: Namespace) -> Iterator[RemoteResult]:
    """Time one pattern after the other."""
    video = media.looped(media.paths(options.media, "web", 1)[0], _TIMES).resolve()
    rows = [row for pattern in PATTERNS for row in contest(video, pattern, options.repeats)]
    yield RemoteResult(
        provenance=origin({"repeats": options.repeats}),
        media={"recipe": media.recipe()},
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
    """Return all ways in turns; one whose frames are not those of the path has failed."""
    keys: list[tuple[str, int | None]] = [(way, None) for way in READERS if way not in REMOTE]
    keys += [(way, latency) for latency in latencies_ms for way in REMOTE]
    rows = {key: RemoteRow(way=key[0], pattern=pattern, latency_ms=key[1]) for key in keys}
    expected: int | None = None
    for _ in range(repeats):
        for key, row in rows.items():
            if row.failure is not None:
                continue
            try:
                turn, checksum = _turn(video, row, ask)
            except WorkerError as error:
                rows[key] = row.model_copy(update={"failure": str(error)})
                continue
            expected = checksum if expected is None else expected
            other = None if checksum == expected else "other frames than by the path"
            rows[key] = row.model_copy(update={"turns": (*row.turns, turn), "failure": other})
    return list(rows.values())


def _turn(video: Path, row: RemoteRow, ask: Ask) -> tuple[Turn, int]:
    with object_store(video.parent, (row.latency_ms or 0) / 1e3) as (address, served):
        found = ask(
            {
                "case": "bench_remote",
                "way": row.way,
                "path": str(video),
                "url": f"{address}/{video.name}",
                "pattern": row.pattern,
            }
        )
    checksum = found.pop("checksum")
    return Turn(**found, requests=served.requests, sent_bytes=served.sent_bytes), checksum


def answer(*, way: str, path: str, url: str, pattern: str) -> dict[str, Any]:
    """Read a video: `scan` its packets, decode `every` frame, or some at `random` places.

    `checksum` is that of the brightness of what came, so that ways can be held against each other.
    """
    calls, meter = Calls(), Meter()
    frames = checksum = 0
    with READERS[way](Path(path), url, calls) as container:
        for found in _READ[pattern](container):
            frames += 1
            checksum = crc32(found, checksum)
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
    """Return every 16th line: enough to tell frames apart, and cheap beside decoding."""
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
    """One line per way and latency: seconds, and what went over the network."""
    header = ["", *(f"{PATTERNS[each]}, s" for each in PATTERNS)]
    header += [f"requests, MB: {PATTERNS[each]}" for each in PATTERNS]
    keys = list(dict.fromkeys((row.way, row.latency_ms) for row in result.rows))
    lines = []
    for way, latency in keys:
        rows = [result.row(way, pattern, latency) for pattern in PATTERNS]
        late = "" if latency is None else f"; {latency} ms"
        lines.append([f"{_SAID[way]}{late}", *map(_time, rows), *map(_asked, rows)])
    calls = [row.turns[0] for row in result.rows if row.way == "python_file" and row.turns]
    asked = ", ".join(
        f"{turn.reads} reads and {turn.seeks} seeks ({PATTERNS[pattern]})"
        for pattern, turn in zip(PATTERNS, calls, strict=False)
    )
    found = [s for row in result.rows for t in row.turns if (s := t.repeat.others_share)]
    notes = (
        f"One video of {result.frames:,} frames, {result.file_bytes / 1e6:.0f} MB, H.264, "
        f"1280×720; median of {result.provenance.configuration['repeats']} turns, each in a "
        "process of its own, from opening on. A server on the loopback waits so long before each "
        "answer; its bandwidth is not limited. The frames of all ways are the same. Of a Python "
        f"file FFmpeg asks {asked}. Other work took {max(found, default=0):.0%} of the CPU time "
        f"in the worst turn. {machine(result)}"
    )
    return f"{table(header, lines)}\n\n{notes}"


def _time(row: RemoteRow | None) -> str:
    if row is None:
        return "not measured"
    return f"failed: {row.failure}" if row.failure or not row.turns else f"{row.seconds:.2f}"


def _asked(row: RemoteRow | None) -> str:
    if row is None or row.latency_ms is None or not row.turns:
        return ""
    requests = median(each.requests for each in row.turns)
    sent = median(each.sent_bytes for each in row.turns)
    return f"{requests:.0f}, {sent / 1e6:.1f}"


BENCHMARK = Benchmark(
    name="remote",
    about=__doc__,
    flags={"media": MEDIA, "repeats": flag(3, "of each, in turn")},
    measure=measure,
    lines=lambda result: remote(result).splitlines(),
)

if __name__ == "__main__":
    BENCHMARK.main()
