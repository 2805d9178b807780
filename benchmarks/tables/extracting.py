"""How fast frames become pictures beside ffmpeg, and whether memory stays flat."""

from statistics import median

from benchmarks.bench_extract import WAYS, kind, ways
from benchmarks.bench_extract_memory import MemoryResult
from benchmarks.extracting.cases import CASES, Case
from benchmarks.record import Row, TimedResult
from benchmarks.tables.markdown import failed, machine, others, spread, table

_HEADER = ("", "headrace, s", "ffmpeg, s", "times as fast", "another way, s", "kB a picture")
_OTHERS = {
    "ffmpeg_at_once": "a process for each core",
    "ffmpeg_predicted": "`-pred mixed`",
}


def extracting(result: TimedResult, memory: MemoryResult | None) -> str:
    """One line per case on one core, and on all; then what the processes hold over an hour."""
    cores = int(str(result.provenance.configuration["cores"]))
    lines = [_line(result, case, count) for case in CASES for count in sorted({1, cores})]
    notes = [
        "Whole commands, from their start until the last file is there, of videos nothing is known "
        f"of; median of {result.provenance.configuration['repeats']} interleaved rounds "
        "(lowest–highest). *Times as fast*: ffmpeg's time over headrace's, the median of the "
        "ratios within a round. The same frames were proved first, as png against a linear decode. "
        "ffmpeg: `-vf fps=N:round=up`, or `-skip_frame nokey`; `-q:v 2` for jpg, while headrace's "
        "quality is 90; `-pred mixed` gives png its filters, as Pillow does. headrace scans each "
        "video, starts a process for each core, and writes a table and a report, too.",
        f"H.264, 1280×720. {others(result.rows)} {machine(result)}",
    ]
    text = f"{table(_HEADER, lines)}\n\n" + "\n".join(notes)
    return text if memory is None else f"{text}\n\n{_flat(memory)}"


def _line(result: TimedResult, case: Case, cores: int) -> list[str]:
    name = kind(case, cores)
    rows = {way: result.row(way, name) for way in WAYS}
    mine, ffmpeg = rows["headrace"], rows["ffmpeg"]
    other = [way for way in ways(case, cores) if way in _OTHERS]
    said = [f"{_OTHERS[way]}: {_seconds(rows[way])}" for way in other]
    ratios = _ratios(mine, ffmpeg)
    return [
        name,
        _seconds(mine),
        _seconds(ffmpeg),
        spread(ratios, ".2f") if ratios else "",
        "; ".join(said),
        " / ".join(_kilobytes(row) for row in (mine, ffmpeg)),
    ]


def _ratios(mine: Row | None, other: Row | None) -> list[float]:
    pairs = zip(mine.repeats if mine else (), other.repeats if other else (), strict=False)
    return [theirs.wall_seconds / ours.wall_seconds for ours, theirs in pairs]


def _seconds(row: Row | None) -> str:
    if row is None:
        return "not measured"
    if row.failure or not row.repeats:
        return failed(row)
    return spread([each.wall_seconds for each in row.repeats], ".1f")


def _kilobytes(row: Row | None) -> str:
    found = (
        [each.written_bytes / each.frames for each in row.repeats if each.written_bytes]
        if row
        else []
    )
    return f"{median(found) / 1e3:.0f}" if found else ""


def _flat(memory: MemoryResult) -> str:
    quarters = ", ".join(f"{memory.quarter(n) / 2**20:,.0f}" for n in range(4))
    return (
        f"A video of {memory.media_seconds / 60:.0f} min, {memory.pictures:,} pictures in "
        f"{memory.wall_seconds:.0f} s: all processes together held {quarters} MiB in the four "
        f"quarters of that time (medians): {100 * memory.growth:+.0f} % from the second to the "
        f"last. {machine(memory)}"
    )
