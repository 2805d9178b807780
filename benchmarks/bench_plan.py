"""What does the plan of an extraction take, in time and memory, with more and more videos?

python -m benchmarks.bench_plan --hours 1     # a first look
python -m benchmarks.bench_plan               # a record that is kept, about a minute

The videos are links to one that is made of a clip again and again: all are scanned, then planned
once more when their indexes are known.
"""

from argparse import Namespace
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import media
from benchmarks.bench_extract import CASES, kind
from benchmarks.kit import MEDIA, WORKERS, Benchmark, flag
from benchmarks.markdown import machine, table
from benchmarks.record import Repeat, Result, Row, TimedResult, origin
from benchmarks.resources import Meter, peak_rss_bytes
from benchmarks.worker import Ask, WorkerError, ask_worker
from headrace.decode.index_store import IndexStore
from headrace.extraction.frame_extraction import FrameExtraction
from headrace.extraction.frame_request import FrameOptions
from headrace.extraction.pictures import Pictures
from headrace.profiling.provenance import Record
from headrace.sampling.selection import ByRate

VIDEO_SECONDS = 80
"""Of each video: 8 times a clip of 10 s."""


class PlanRow(Record):
    """So many hours of video."""

    hours: float
    videos: int
    new: Repeat | None = None
    """Every video is scanned."""
    known: Repeat | None = None
    """Every index comes from disk. `memory_bytes` is the peak above what the process had before,
    `written_bytes` what the request will be as a file."""
    chunks: int = 0
    failure: str | None = None


class PlanResult(Result):
    """One row for each number of hours."""

    rows: tuple[PlanRow, ...]


def measure(options: Namespace) -> Iterator[PlanResult]:
    """Plan one number of hours after the other."""
    video = media.looped(media.paths(options.media, "web", 1)[0], 8).resolve()
    parameters = {"workers": options.workers, "hours": ",".join(map(str, options.hours))}
    yield PlanResult(
        provenance=origin(parameters),
        media={"recipe": media.recipe()},
        rows=tuple(planned(video, hours, options.workers) for hours in options.hours),
    )


def planned(video: Path, hours: float, workers: int, ask: Ask = ask_worker) -> PlanRow:
    """Plan so many hours twice, each time in a process of its own: new videos, then known ones."""
    row = PlanRow(hours=hours, videos=round(hours * 3600 / VIDEO_SECONDS))
    with TemporaryDirectory() as folder:
        links = [Path(folder) / f"{number:06d}{video.suffix}" for number in range(row.videos)]
        for link in links:
            link.symlink_to(video)
        asked = {
            "case": "bench_plan",
            "cores": workers,
            "workers": workers,
            "store": str(Path(folder) / "indexes"),
            "paths": list(map(str, links)),
        }
        try:
            new, known = ask(asked), ask(asked)
        except WorkerError as error:
            return row.model_copy(update={"failure": str(error)})
    repeats = {"new": Repeat(**new["repeat"]), "known": Repeat(**known["repeat"])}
    return row.model_copy(update={**repeats, "chunks": known["chunks"]})


def answer(*, paths: list[str], store: str, workers: int) -> dict[str, Any]:
    """Plan one picture a second of each video, with the indexes that the folder `store` has."""
    options = FrameOptions(
        sources=tuple(paths),
        selection=ByRate(Fraction(1)),
        out=Path(store) / "never-made",
        pictures=Pictures(format="jpg"),
        workers=workers,
    )
    before, meter = peak_rss_bytes(), Meter()
    plan = FrameExtraction.prepare(options, store=IndexStore(Path(store))).plan
    repeat = {
        **meter.read(),
        "frames": sum(map(len, plan.indexes.values())),
        "memory_bytes": peak_rss_bytes() - before,
        "written_bytes": len(plan.request.text()),
    }
    return {"repeat": repeat, "chunks": len(plan.chunks)}


HOURS = 1e6
"""Of video: what a large collection would take, from what was measured."""
DAYS = 30
FRAME_RATE = 30
"""Of the videos."""
_RATE, _SAMPLES, _FILE_BYTES, _CHUNK = 1, 3600, 512e6, 256
"""Features a second; an hour's; of a table, at most; samples of a chunk, at most."""
_WIDTHS = {
    "512 numbers, float16": 1024,
    "512 numbers, float32": 2048,
    "2,048 numbers, float32": 8192,
}


def planning(result: PlanResult) -> str:
    """One line per number of hours: what the plan takes."""
    lines = []
    for row in result.rows:
        if row.new is None or row.known is None:
            lines.append([f"{row.hours:g} h", f"failed: {row.failure}", "", "", ""])
            continue
        lines.append(
            [
                f"{row.hours:g} h, {row.videos:,} videos",
                f"{row.new.wall_seconds:.1f}",
                f"{row.known.wall_seconds:.1f}",
                f"{(row.known.memory_bytes or 0) / 2**20:,.0f} MiB",
                f"{(row.known.written_bytes or 0) / 1e6:.1f} MB",
            ]
        )
    header = ("", "new, s", "known, s", "memory", "request")
    return f"{table(header, lines)}\n\n{_further(result)}{machine(result)}"


def _further(result: PlanResult) -> str:
    row = result.rows[-1]
    if row.known is None or not row.known.memory_bytes:
        return ""
    terabytes = row.known.memory_bytes / row.hours * HOURS / 1e12
    return f"In a straight line, the plan of 1,000,000 h would hold {terabytes:,.1f} TB. "


def decoding(sequential: TimedResult, extract: TimedResult | None) -> str:
    """One line per kind of work: hours of video an hour of a core does, and cores for a month."""
    lines = [
        [name, f"{speed:,.0f}", f"{HOURS / speed / 24:,.0f}", f"{HOURS / speed / 24 / DAYS:,.0f}"]
        for name, speed in _speeds(sequential, extract)
    ]
    header = ["H.264, 1280×720, 30 frames/s", "hours of video an hour of a core"]
    header += ["core-days, 1,000,000 h", f"cores for {DAYS} days"]
    made = [machine(each) for each in (sequential, extract) if each]
    notes = "By CPU time, start-up of a command included. On the cores of: "
    return f"{table(header, lines)}\n\n{notes}{' '.join(dict.fromkeys(made))}"


def _speeds(sequential: TimedResult, extract: TimedResult | None) -> Iterator[tuple[str, float]]:
    for kind_of_media in ("web", "cam"):
        spent = _core_seconds(sequential.row("headrace", kind_of_media))
        if spent is not None:
            yield f"{kind_of_media}: every frame, to 256×256", 1 / (spent * FRAME_RATE)
    for case in CASES if extract else ():
        row = extract.row("headrace", kind(case, 1)) if extract else None
        spent = _core_seconds(row)
        if row is not None and spent is not None and case.times > 1 and case.frames == "fps":
            yield case.name, case.seconds / (spent * row.repeats[0].frames)


def _core_seconds(row: Row | None) -> float | None:
    """Return the CPU seconds of a frame that came: they change least where others work, too."""
    found = [each.cpu_ms_per_frame for each in row.repeats] if row else []
    known = [each for each in found if each is not None]
    return median(known) / 1e3 if known else None


def features() -> str:
    """One line per width: bytes, tables, rows for a million hours at one feature a second."""
    count = HOURS * _SAMPLES * _RATE
    lines = [
        [
            name,
            f"{count * width / 1e12:,.1f} TB",
            f"{count * width / _FILE_BYTES:,.0f}",
            f"{count / _CHUNK / 1e6:,.0f} million",
        ]
        for name, width in _WIDTHS.items()
    ]
    return table(("a feature", "bytes", "tables of 512 MB", "chunks, at least"), lines)


BENCHMARK = Benchmark(
    name="plan",
    about=__doc__,
    flags={"media": MEDIA, "hours": flag([1.0, 10.0], "of video"), "workers": WORKERS},
    measure=measure,
    lines=lambda result: planning(result).splitlines(),
)

if __name__ == "__main__":
    BENCHMARK.main()
