"""Results as Markdown tables; cases that were lost stay in."""

from collections.abc import Callable, Mapping, Sequence

from benchmarks.record import (
    Conditions,
    RandomResult,
    RandomRow,
    Repeat,
    Row,
    SequentialResult,
    Spread,
    StartupResult,
)
from benchmarks.runner import REFERENCE

NAMES = {
    "pyav_loop": "bare PyAV loop (the limit)",
    "headrace": "**headrace**",
    "spdl": "SPDL",
    "decord": "decord",
    "torchcodec": "torchcodec",
    "opencv_linear": "OpenCV, bilinear without antialiasing",
    "opencv": "OpenCV, area",
}
DISTURBED = 0.05
"""Share of the CPU time taken by other work from which a run counts as disturbed."""
RANDOM_NAMES = {
    "baseline": "DataLoader, 2 workers, PyAV: open and seek for each frame",
    "baseline_kept": "the same, files kept open",
    "baseline_clips": "DataLoader, 2 workers, PyAV: files kept open, a seek for each clip",
    "opencv": "OpenCV, captures kept, grouped by file",
    "decord": "decord, readers kept, grouped by file",
    "spdl": "SPDL, packets kept, grouped by file",
    "torchcodec": "torchcodec, decoders kept, grouped by file",
    "headrace_naive": "headrace, looking no further than now",
    "headrace_256MiB": "**headrace**, 256 MiB",
    "headrace_256MiB_yuv420": "**headrace**, 256 MiB, held as YUV 4:2:0",
    "headrace_1GiB": "**headrace**, 1 GiB",
    "headrace_bursts_256MiB": "**headrace**, `Bursts` of 8 (other samples), 256 MiB",
}


def sequential(result: SequentialResult) -> str:
    """One line per library, the quickest on the first kind of media on top."""
    kinds = list(dict.fromkeys(row.kind for row in result.rows))
    header = ["library"]
    for kind in kinds:
        header += [f"{kind}: frames/s", "of the limit"]
    header += [f"CPU ms per frame ({' / '.join(kinds)})", "decoded ÷ delivered", "peak memory"]
    limits = {row.kind: row for row in result.rows if row.library == REFERENCE}
    lines = [_library_line(rows, limits) for rows in by_library(result)]
    return "\n\n".join([_table(header, lines), _sequential_notes(result)])


def random_access(result: RandomResult) -> str:
    """One line per way, in the order they were timed; how many times the first line each is."""
    kinds = list(dict.fromkeys(row.kind for row in result.rows))
    header = ["way"]
    for kind in kinds:
        header += [f"{kind}: frames/s", "times the first"]
    together = " / ".join(kinds)
    header += [f"decoded ÷ delivered ({together})", f"CPU ms per frame ({together})", "memory"]
    ways = dict.fromkeys(row.library for row in result.rows)
    firsts = {row.kind: row for row in reversed(result.rows)}
    lines = [_way_line([r for r in result.rows if r.library == way], firsts) for way in ways]
    return "\n\n".join([_table(header, lines), _random_notes(result)])


def startup(result: StartupResult) -> str:
    """One line per thing that was timed, in the order it was timed."""
    lines = []
    for timing in result.timings:
        times = [1e3 * seconds for seconds in timing.seconds]
        lines.append([f"`{timing.name}`", timing.failure or f"{_spread(times, '.1f')} ms"])
    notes = f"Median (lowest–highest). {_machine(result.conditions)}"
    return "\n\n".join([_table(["what", "time"], lines), notes])


def by_library(result: SequentialResult) -> list[list[Row]]:
    """The rows of each library, one per kind, the quickest library first."""
    libraries = dict.fromkeys(row.library for row in result.rows)
    rows = [[row for row in result.rows if row.library == library] for library in libraries]
    return sorted(rows, key=lambda of_library: -median_speed(of_library[0]))


def median_speed(row: Row) -> float:
    """Frames per second; 0 for a library that was not timed."""
    return _median(row.repeats, lambda repeat: repeat.frames_per_second)


def _library_line(rows: Sequence[Row], limits: Mapping[str, Row]) -> list[str]:
    cells = [NAMES.get(rows[0].library, rows[0].library)]
    for row in rows:
        cells += [_speed(row), _share(row, limits.get(row.kind))]
    timed = [row for row in rows if row.repeats]
    cpu = [f"{_median(row.repeats, lambda each: each.cpu_ms_per_frame):.2f}" for row in timed]
    peak = max((_median(row.repeats, lambda each: each.peak_rss_bytes) for row in timed), default=0)
    return [*cells, " / ".join(cpu), _decoded(timed), f"{peak / 2**20:,.0f} MiB" if peak else ""]


def _decoded(rows: Sequence[Row]) -> str:
    """Frames decoded for each delivered one, the worst repeat; empty where no library tells."""
    repeats = [repeat for row in rows for repeat in row.repeats]
    told = [each.decoded_frames / each.frames for each in repeats if each.decoded_frames]
    return f"{max(told):.2f}" if told else ""


def _way_line(rows: Sequence[RandomRow], firsts: Mapping[str, RandomRow]) -> list[str]:
    cells = [RANDOM_NAMES.get(rows[0].library, rows[0].library)]
    for row in rows:
        cells += [_speed(row), _times(row, firsts[row.kind])]
    timed = [row for row in rows if row.repeats]
    decoded = [f"{_amplification(row):.2f}" for row in timed if row.repeats[0].decoded is not None]
    cpu = [f"{Spread.of([r.cpu_ms_per_frame for r in row.repeats]).median:.1f}" for row in timed]
    peak = max((r.memory_bytes for row in timed for r in row.repeats), default=0)
    is_spread = rows[0].library.startswith("baseline")  # over worker processes
    memory = "" if is_spread or not peak else f"{peak / 2**20:,.0f} MiB"
    return [*cells, " / ".join(decoded), " / ".join(cpu), memory]


def _exact(result: RandomResult) -> str:
    """Which ways gave the very pixels of the linear decode."""
    differs = {r.library for r in result.rows if r.equality and r.equality.max_mean_difference}
    ours = dict.fromkeys(r.library for r in result.rows if r.library.startswith("headrace"))
    exact = [RANDOM_NAMES.get(name, name).replace("**", "") for name in ours if name not in differs]
    return f"by none: {'; '.join(exact)}" if exact else "all differ"


def _amplification(row: RandomRow) -> float:
    """Frames decoded for each delivered one, over all rounds."""
    return sum(r.decoded or 0 for r in row.repeats) / sum(r.frames for r in row.repeats)


def _times(row: RandomRow, first: RandomRow) -> str:
    """Median over the rounds of this way's speed by the first one's in the same round."""
    if not row.repeats or len(row.repeats) != len(first.repeats):
        return ""
    pairs = zip(row.repeats, first.repeats, strict=True)
    ratios = [ours.frames_per_second / its.frames_per_second for ours, its in pairs]
    return f"{Spread.of(ratios).median:.1f}"


def _speed(row: Row | RandomRow) -> str:
    if row.failure:
        return f"failed: {row.failure.replace('|', '/')}"
    if row.equality and not row.equality.holds:
        bad = row.equality.missing + row.equality.wrong
        return f"wrong frames: {bad:,} of {row.equality.frames:,}"
    if not row.repeats:
        return "not timed"
    return _spread([repeat.frames_per_second for repeat in row.repeats], ",.0f")


def _share(row: Row, limit: Row | None) -> str:
    """Median over the rounds of this library's speed by the limit's in the same round."""
    if limit is None or not row.repeats or len(row.repeats) != len(limit.repeats):
        return ""
    pairs = zip(row.repeats, limit.repeats, strict=True)
    shares = [ours.frames_per_second / its.frames_per_second for ours, its in pairs]
    return f"{Spread.of(shares).median:.2f}"


def _sequential_notes(result: SequentialResult) -> str:
    conditions = result.conditions
    parameters, media = conditions.parameters, conditions.media
    height, width = media["recipe"]["size"]
    small_height, small_width = parameters["size"]
    kinds = "; ".join(
        f"*{kind}*: {about['videos']} videos, {about['frames']:,} frames, mean GOP "
        f"{about['mean_gop']:.0f}, {about['b_frame_share']:.0%} B-frames"
        for kind, about in media["kinds"].items()
    )
    difference = max((r.equality.max_mean_difference for r in result.rows if r.equality), default=0)
    others = max((each.others_share for row in result.rows for each in row.repeats), default=0)
    versions = dict.fromkeys(
        ", ".join(f"{name} {version}" for name, version in row.versions.items())
        for row in result.rows
        if row.versions
    )
    return "\n".join(
        [
            f"Median of {parameters['repeats']} interleaved rounds (lowest–highest), each library "
            f"in its own process on the same {parameters['workers']} cores; *of the limit* is the "
            "median of the ratios within a round.",
            f"H.264, {width}×{height} to {small_width}×{small_height} RGB. {kinds}.",
            "Equal frames were proved first: none differs from the limit's by more than "
            f"{difference:.2f} grey levels in the mean.",
            f"Other work took at most {others:.0%} of the CPU time. {_machine(conditions)}",
            f"{'; '.join(versions)}.",
            "Not measured: other codecs, 10-bit video, decoding on a GPU, other numbers of cores.",
        ]
    )


def _random_notes(result: RandomResult) -> str:
    conditions = result.conditions
    parameters, media = conditions.parameters, conditions.media
    height, width = media["recipe"]["size"]
    small_height, small_width = parameters["size"]
    kinds = "; ".join(
        f"*{kind}*: {about['videos']} videos, {about['frames']:,} frames, mean GOP "
        f"{about['mean_gop']:.0f}, {about['b_frame_share']:.0%} B-frames"
        for kind, about in media["kinds"].items()
    )
    clip = parameters["clip"]
    what = f"clips of {clip[0]} frames, {clip[1]} apart" if clip else "frames"
    difference = max((r.equality.max_mean_difference for r in result.rows if r.equality), default=0)
    shares = [each.others_share for row in result.rows for each in row.repeats]
    disturbed = sum(share > DISTURBED for share in shares)
    versions = dict.fromkeys(
        ", ".join(f"{name} {version}" for name, version in row.versions.items())
        for row in result.rows
        if row.versions
    )
    return "\n".join(
        [
            f"Batches of {parameters['batch_size']} {what}, drawn uniformly: the same ones for "
            f"all. Median of {parameters['rounds']} interleaved rounds (lowest–highest) of at "
            f"least {parameters['seconds']:g} s each, every way in its own process on the same "
            f"{parameters['workers']} cores, in a steady state: after one batch, and for headrace "
            "after as many frames as it looks ahead. *Times the first* is the median of the "
            "ratios within a round. Memory is the peak above what the process had before, without "
            "worker processes.",
            f"H.264, {width}×{height} to {small_width}×{small_height} RGB. {kinds}.",
            "Equal frames were proved first: none differs from a linear decode by more than "
            f"{difference:.2f} grey levels in the mean; {_exact(result)}.",
            f"Other work took more than {DISTURBED:.0%} of the CPU time in {disturbed} of "
            f"{len(shares)} runs, {max(shares, default=0):.0%} in the worst. "
            f"{_machine(conditions)}",
            f"{'; '.join(versions)}.",
            "Not measured: the first frames, until the look-ahead is filled; files that are not in "
            "the page cache; a model that computes beside the decoders.",
        ]
    )


def _machine(conditions: Conditions) -> str:
    memory = conditions.memory_bytes / 2**30
    return (
        f"{conditions.cpu}, {conditions.cores} cores, {memory:.0f} GiB; {conditions.system}; "
        f"{conditions.python}; headrace at {conditions.commit}, {conditions.date}."
    )


def _median(repeats: Sequence[Repeat], value: Callable[[Repeat], float]) -> float:
    return Spread.of([value(repeat) for repeat in repeats]).median if repeats else 0.0


def _spread(values: Sequence[float], form: str) -> str:
    spread = Spread.of(values)
    return f"{spread.median:{form}} ({spread.lowest:{form}}–{spread.highest:{form}})"


def _table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [header, rule, *lines])
