"""What a million hours of video would take, from what was measured."""

from collections.abc import Iterator
from statistics import median

from benchmarks.bench_extract import kind
from benchmarks.bench_plan import PlanResult
from benchmarks.extracting.cases import CASES, Case
from benchmarks.record import Row, TimedResult
from benchmarks.tables.markdown import machine, table

HOURS = 1e6
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


def decoding(sequential: TimedResult, extract: TimedResult | None) -> str:
    """One line per kind of work: hours of video an hour of a core does, and cores for a month."""
    rows = [*_every_frame(sequential), *(_pictures(extract) if extract else ())]
    lines = [
        [name, f"{speed:,.0f}", f"{HOURS / speed / 24:,.0f}", f"{HOURS / speed / 24 / DAYS:,.0f}"]
        for name, speed in rows
    ]
    header = ["H.264, 1280×720, 30 frames/s", "hours of video an hour of a core"]
    header += ["core-days, 1,000,000 h", f"cores for {DAYS} days"]
    made = [machine(each) for each in (sequential, extract) if each]
    notes = "By CPU time, start-up of a command included. On the cores of: "
    return f"{table(header, lines)}\n\n{notes}{' '.join(dict.fromkeys(made))}"


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


def _every_frame(sequential: TimedResult) -> Iterator[tuple[str, float]]:
    for media in ("web", "cam"):
        spent = _core_seconds(sequential.row("headrace", media))
        if spent is not None:
            yield f"{media}: every frame, to 256×256", 1 / (spent * FRAME_RATE)


def _pictures(extract: TimedResult) -> Iterator[tuple[str, float]]:
    for case in CASES:
        row = extract.row("headrace", kind(case, 1))
        spent = _core_seconds(row)
        if row is not None and spent is not None and case.times > 1 and case.frames == "fps":
            yield case.name, _seconds_of(case) / (spent * row.repeats[0].frames)


def _core_seconds(row: Row | None) -> float | None:
    """Return the CPU seconds of a frame that came: they change least where others work, too."""
    found = [each.cpu_ms_per_frame for each in row.repeats] if row else []
    told = [each for each in found if each is not None]
    return median(told) / 1e3 if told else None


def _seconds_of(case: Case) -> float:
    """Return how long its videos last."""
    return 10.0 * case.times * case.videos


def _further(result: PlanResult) -> str:
    row = result.rows[-1]
    if row.known is None or not row.known.memory_bytes:
        return ""
    terabytes = row.known.memory_bytes / row.hours * HOURS / 1e12
    return f"In a straight line, the plan of 1,000,000 h would hold {terabytes:,.1f} TB. "
