"""What it costs to read a video where it lies."""

from statistics import median

from benchmarks.bench_remote import PATTERNS, RemoteResult, RemoteRow
from benchmarks.tables.markdown import machine, table

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
_PATTERNS = {"scan": "scan", "every": "every frame", "random": "16 random frames"}


def remote(result: RemoteResult) -> str:
    """One line per way and latency: seconds, and what went over the network."""
    header = ["", *(f"{_PATTERNS[each]}, s" for each in PATTERNS)]
    header += [f"requests, MB: {_PATTERNS[each]}" for each in PATTERNS]
    keys = list(dict.fromkeys((row.way, row.latency_ms) for row in result.rows))
    lines = []
    for way, latency in keys:
        rows = [result.row(way, pattern, latency) for pattern in PATTERNS]
        late = "" if latency is None else f"; {latency} ms"
        lines.append([f"{_SAID[way]}{late}", *map(_time, rows), *map(_asked, rows)])
    calls = [row.turns[0] for row in result.rows if row.way == "python_file" and row.turns]
    asked = ", ".join(
        f"{turn.reads} reads and {turn.seeks} seeks ({_PATTERNS[pattern]})"
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
