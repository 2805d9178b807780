"""What a long live run was like."""

from benchmarks.live.soaked import STEP_BYTES, SoakResult
from benchmarks.tables.markdown import DISTURBED, machine, table, yes


def soak(result: SoakResult) -> str:
    """What was asked, and what was found."""
    memory, latency = result.warm_rss, result.latency_ms
    lines = [
        ("came to its end", yes(result.outcome == "complete")),
        ("frames", f"{result.arrived:,}"),
        *((f"dropped, {words}", f"{count:,}") for words, count in sorted(result.drops.items())),
        ("arrived = delivered + dropped + in flight", yes(result.is_conserved)),
        ("frames/s", f"{result.frames_per_second or 0:.2f}"),
    ]
    if latency is not None:
        for name, value in (("p50", latency.p50), ("p95", latency.p95), ("p99", latency.p99)):
            lines.append((f"latency, {name}", "too few" if value is None else f"{value:.0f} ms"))
        lines.append(("latency, worst", f"{latency.worst:,.0f} ms"))
    lines += [
        ("memory", f"{max(memory.values, default=0) / 2**20:,.0f} MiB"),
        ("its slope", f"{memory.slope * 60 / 2**20:+.2f} MiB a minute"),
        ("flat, but for the record of the steps", yes(result.is_memory_flat)),
        ("threads", _range(result.threads.after(result.warm_up_seconds).values)),
        ("open files", _range(result.open_files.after(result.warm_up_seconds).values)),
        (
            "threads and open files level",
            yes(result.is_level(result.threads) and result.is_level(result.open_files)),
        ),
        ("pictures a browser got", f"{result.pictures:,}"),
    ]
    per_minute = (result.frames_per_second or 0.0) * 60 * STEP_BYTES / 2**20
    share = result.others_share
    noise = "" if share is None else f"Other work took {share:.0%} of the CPU time. "
    if share is not None and share > DISTURBED:
        noise = noise.replace(". ", ": disturbed, to be measured again. ")
    source = "an RTSP server" if result.source == "rtsp" else "a paced file"
    notes = (
        f"`headrace run` of {result.model} on {source}, 720p at 30 frames/s, for "
        f"{result.minutes:g} min, its page open in one browser. Judged after "
        f"{result.warm_up_seconds:.0f} s: memory by least squares over samples, allowing 1% and "
        f"what the run keeps of each step for its report ({per_minute:.1f} MiB a minute, for the "
        "first 100,000 steps). Level: the second half held no more than the first, by its median. "
        f"Latency counts from {'arrival' if latency is None else latency.base}.\n"
        f"{noise}{machine(result)}"
    )
    return f"{table((f'{result.minutes:g} min', ''), lines)}\n\n{notes}"


def _range(values: tuple[float, ...]) -> str:
    return f"{min(values, default=0):.0f}–{max(values, default=0):.0f}"
