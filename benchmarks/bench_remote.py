"""Can videos be read where they lie, in a store of objects, or are they better copied first?

python -m benchmarks.bench_remote --repeats 1     # a first look
python -m benchmarks.bench_remote                 # a record that is kept, about two minutes

Each way opens the same video for PyAV: by its path, as a Python file, by fsspec from memory and
from an HTTP server on the loopback that waits before it answers, and copied from there first.
fsspec needs aiohttp for HTTP: without it those ways are kept as failed.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks import media
from benchmarks.looped import looped
from benchmarks.record import RESULTS, Repeat, Result, origin
from benchmarks.remote.object_server import object_store
from benchmarks.remote.readers import READERS, REMOTE
from benchmarks.runner import Ask, WorkerError, ask_worker
from headrace.profiling.provenance import Record

PATTERNS = ("scan", "every", "random")
LATENCIES_MS = (0, 20)
_TIMES = 8
"""That a clip of 10 s is repeated in the video."""


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


def main() -> None:
    """Time, prove, keep, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--media", type=Path, default=media.DEFAULT_ROOT, help="their folder")
    parser.add_argument("--repeats", type=int, default=3, help="of each, in turn")
    parser.add_argument("--out", type=Path, default=RESULTS / "remote.json")
    options = parser.parse_args()
    video = looped(media.paths(options.media, "web", 1)[0], _TIMES).resolve()
    rows = [row for pattern in PATTERNS for row in contest(video, pattern, options.repeats)]
    result = RemoteResult(
        provenance=origin({"repeats": options.repeats}),
        media={"recipe": media.recipe()},
        file_bytes=video.stat().st_size,
        frames=max(turn.repeat.frames for row in rows for turn in row.turns),
        rows=tuple(rows),
    )
    result.save(options.out)
    for row in rows:
        late = "" if row.latency_ms is None else f" {row.latency_ms} ms"
        print(f"{row.pattern} {row.way}{late}: {row.failure or f'{row.seconds:.2f} s'}")
    print(options.out)


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
                "question": "remote_video",
                "cores": None,
                "way": row.way,
                "path": str(video),
                "url": f"{address}/{video.name}",
                "pattern": row.pattern,
            }
        )
    checksum = found.pop("checksum")
    return Turn(**found, requests=served.requests, sent_bytes=served.sent_bytes), checksum


if __name__ == "__main__":
    main()
