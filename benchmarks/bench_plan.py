"""How much time and memory does the plan of an extraction take, by hours of video?

python -m benchmarks.bench_plan --hours 1     # a first look
python -m benchmarks.bench_plan               # the full run, about a minute

The videos are links to one video, which repeats a clip. They are planned twice: as new videos,
which are scanned, and with stored indexes.
"""

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.bench_extract import CASES, kind
from benchmarks.kit import CORES, Benchmark, begin, task_of, tried
from benchmarks.loading import link_files
from benchmarks.markdown import machine, rendered
from benchmarks.media import DEFAULT_ROOT, loop_media, paths
from benchmarks.record import Repeat, Row, Rows, TimedResult, Tried
from benchmarks.worker import Ask, Meter, ask_worker, peak_rss_bytes
from headrace.decode.index_store import IndexStore
from headrace.extraction.frame_extraction import FrameExtraction, FrameExtractionOptions
from headrace.extraction.image_encoder import ImageEncoder
from headrace.sampling.selection import ByRate

VIDEO_SECONDS = 80
"""Duration of each video, which repeats a clip of 10 s 8 times."""


class PlanRow(Tried):
    """Plans for a number of hours of video."""

    hours: float
    videos: int
    new: Repeat | None = None
    """Every video is scanned."""
    known: Repeat | None = None
    """Every index is read from disk. `memory_bytes` is peak RSS minus RSS at the start,
    `written_bytes` the size of the stored request."""
    chunks: int = 0


def measure(
    *, media: Path = DEFAULT_ROOT, hours: tuple[float, ...] = (1.0, 10.0), workers: int = CORES
) -> Iterator[Rows[PlanRow]]:
    """Plan each number of hours.

    Args:
        media: folder of the videos
        hours: hours of video
        workers: threads and cores
    """
    video = loop_media(paths(media, "web", 1)[0], 8).resolve()
    source = begin(workers=workers, hours=",".join(map(str, hours)))
    yield Rows[PlanRow](**source, rows=tuple(time_plan(video, h, workers) for h in hours))


def time_plan(video: Path, hours: float, workers: int, ask: Ask = ask_worker) -> PlanRow:
    """Return the row of `hours`, planned with new and then with known videos, in two processes."""
    count = round(hours * 3600 / VIDEO_SECONDS)
    with TemporaryDirectory() as folder:
        links = link_files([video], Path(folder) / "videos", count)
        task = task_of("bench_plan", links, workers, store=str(Path(folder) / "indexes"))

        def take(row: PlanRow) -> PlanRow:
            new, known = ask(task), ask(task)
            repeats = {"new": Repeat(**new["repeat"]), "known": Repeat(**known["repeat"])}
            return row.model_copy(update={**repeats, "chunks": known["chunks"]})

        return tried(PlanRow(hours=hours, videos=count), take)


def answer(*, paths: list[str], store: str, workers: int) -> dict[str, Any]:
    """Time the plan of one image per second of each video; `store` is the folder of indexes."""
    options = FrameExtractionOptions(
        sources=tuple(paths),
        selection=ByRate(Fraction(1)),
        out=Path(store) / "never-made",
        pictures=ImageEncoder(format="jpg"),
        workers=workers,
    )
    before, meter = peak_rss_bytes(), Meter()
    plan = FrameExtraction.prepare(options, store=IndexStore(Path(store))).plan
    repeat = {**meter.read(), "memory_bytes": peak_rss_bytes() - before}
    repeat["frames"] = sum(map(len, plan.indexes.values()))
    repeat["written_bytes"] = len(plan.request.text())
    return {"repeat": repeat, "chunks": len(plan.chunks)}


HOURS = 1e6
"""Hours of video in a large collection, for extrapolation."""
DAYS = 30
FRAME_RATE = 30
"""Frame rate of the videos."""
_RATE, _SAMPLES, _FILE_BYTES, _CHUNK = 1, 3600, 512e6, 256
"""Features per second of video, samples per hour, max bytes of a table, max samples of a chunk."""
_WIDTHS = {
    "512 values, float16": 1024,
    "512 values, float32": 2048,
    "2,048 values, float32": 8192,
}


def planning(result: Rows[PlanRow]) -> str:
    """Return a line per number of hours: time and memory of the plan."""
    *_, last = result.rows
    further = ""
    if last.known and last.known.memory_bytes:
        terabytes = last.known.memory_bytes / last.hours * HOURS / 1e12
        further = (
            f"Extrapolated, the plan of 1,000,000 h would take {terabytes:,.1f} TB of memory. "
        )
    columns: Mapping[str, Callable[[Any], str]] = {
        "": lambda row: f"{row.hours:g} h, {row.videos:,} videos",
        "new, s": lambda row: f"{row.new.wall_seconds:.1f}",
        "known, s": lambda row: f"{row.known.wall_seconds:.1f}",
        "memory": lambda row: f"{row.known.memory_bytes / 2**20:,.0f} MiB",
        "request": lambda row: f"{row.known.written_bytes / 1e6:.1f} MB",
    }
    return rendered(result.rows, columns, f"{further}{machine(result)}")


def decoding(sequential: TimedResult, extract: TimedResult | None, *_: object) -> str:
    """Return a line per kind of work: hours of video per core-hour, and cores for a month."""
    machines = dict.fromkeys(machine(speed) for speed in (sequential, extract) if speed)
    return rendered(
        [*_speeds(sequential, extract)],
        {
            "H.264, 1280×720, 30 frames/s": lambda named: named[0],
            "hours of video per core-hour": lambda named: f"{named[1]:,.0f}",
            "core-days, 1,000,000 h": lambda named: f"{HOURS / named[1] / 24:,.0f}",
            f"cores for {DAYS} days": lambda named: f"{HOURS / named[1] / 24 / DAYS:,.0f}",
        },
        f"From CPU time, including the start-up of a command. Measured on: {' '.join(machines)}",
    )


def _speeds(sequential: TimedResult, extract: TimedResult | None) -> Iterator[tuple[str, float]]:
    for kind_of_media in ("web", "cam"):
        row = sequential.row("headrace", kind_of_media)
        if row and row.repeats:
            yield f"{kind_of_media}: every frame, to 256×256", 1 / (_core_seconds(row) * FRAME_RATE)
    for case in CASES if extract else ():
        row = extract.row("headrace", kind(case, 1)) if extract else None
        if row and row.repeats and case.times > 1 and case.frames == "fps":
            yield case.name, case.seconds / (_core_seconds(row) * row.repeats[0].frames)


def _core_seconds(row: Row) -> float:
    """Return the CPU seconds per delivered frame, which other programs affect least."""
    return median(row.values("cpu_ms_per_frame")) / 1e3


def features(*_: object) -> str:
    """Return a line per width: size of the features of a million hours, one per second."""
    count = HOURS * _SAMPLES * _RATE
    return rendered(
        _WIDTHS.items(),
        {
            "feature": lambda width: width[0],
            "bytes": lambda width: f"{count * width[1] / 1e12:,.1f} TB",
            "tables of 512 MB": lambda width: f"{count * width[1] / _FILE_BYTES:,.0f}",
            "min chunks": lambda _: f"{count / _CHUNK / 1e6:,.0f} million",
        },
    )


BENCHMARK = Benchmark("plan", __doc__, measure, planning)

if __name__ == "__main__":
    BENCHMARK.main()
