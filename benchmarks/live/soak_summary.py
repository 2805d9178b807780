"""What `benchmarks.soak` keeps of a long live run, what its figures say, and its table."""

from statistics import median
from typing import Any

from benchmarks.live.figures import Conserved, Quantiles, Series, where
from benchmarks.markdown import table, yes
from benchmarks.record import Result
from headrace.profiling.metrics import Metrics
from headrace.profiling.session import Session
from headrace.report.live_totals import drops_of

STEP_BYTES = 200
"""That a run keeps of each step for its record: some fifteen numbers, and its waits in five
queues. Only of the last 100,000 steps and 65,536 waits, so that it ends at about 20 MB."""


class LongLatency(Quantiles):
    """Age of a frame when its result is out, in milliseconds."""

    base: str
    """What it counts from."""
    p99: float | None = None
    """None: too few samples."""


class SoakResult(Result, Conserved):
    """One long run."""

    minutes: float
    source: str
    model: str
    warm_up_seconds: float
    """At the start, that nothing is judged by."""
    outcome: str
    """Of the run, as its session says."""
    frames_per_second: float | None = None
    latency_ms: LongLatency | None = None
    others_share: float | None = None
    """CPU time of other programs, as a share of all that was used."""
    rss_bytes: Series
    threads: Series
    open_files: Series
    pictures: int
    """That the client got."""
    refused: int
    """Requests that were answered with an error."""

    @property
    def warm_rss(self) -> Series:
        """Memory after the warm-up."""
        return self.rss_bytes.after(self.warm_up_seconds)

    @property
    def record_bytes(self) -> float:
        """That the record of the steps may have grown by in that time."""
        at = self.warm_rss.at_seconds
        return STEP_BYTES * (self.frames_per_second or 0.0) * (at[-1] - at[0]) if at else 0.0

    @property
    def is_memory_flat(self) -> bool:
        """It grew by no more than its record and a hundredth."""
        found = self.warm_rss
        return bool(found.values) and found.growth <= self.record_bytes + max(found.values) / 100

    def is_level(self, series: Series) -> bool:
        """After the warm-up, the second half held no more than the first, by its median.

        Not by its most: a sample may find a connection open that is closed a moment later.
        """
        values = series.after(self.warm_up_seconds).values
        half = len(values) // 2
        return half > 0 and median(values[half:]) <= median(values[:half])

    @property
    def is_right(self) -> bool:
        """It came to its end, and all the above holds."""
        levels = self.is_level(self.threads) and self.is_level(self.open_files)
        return self.outcome == "complete" and self.is_conserved and self.is_memory_flat and levels

    def verdicts(self) -> list[str]:
        """One line for each question."""
        growth, allowed = self.warm_rss.growth / 2**20, self.record_bytes / 2**20
        latency, answers = self.latency_ms, ("no", "yes")
        age = latency and f"p50 {latency.p50:.0f} ms, worst {latency.worst:.0f} ms"
        return [
            f"outcome: {self.outcome}",
            f"conserved: {answers[self.is_conserved]} ({self.arrived:,} frames arrived)",
            f"memory flat: {answers[self.is_memory_flat]} (by its slope {growth:+.1f} MiB, "
            f"of which the record of the steps may be {allowed:.1f} MiB)",
            f"threads level: {answers[self.is_level(self.threads)]}",
            f"open files level: {answers[self.is_level(self.open_files)]}",
            f"latency: {age or 'none'}",
            f"all of it: {answers[self.is_right]}",
        ]


def told(session: Session) -> dict[str, Any]:
    """Return the fields that the session of the run gives."""
    metrics, items, latency = Metrics.of(session), session.items, None
    if (found := metrics.latency) is not None:
        figures = {name: getattr(found.ms, name) for name in ("count", "p50", "p95", "p99")}
        latency = LongLatency(base=found.base, worst=found.ms.maximum, **figures)
    return {
        "outcome": session.outcome,
        "frames_per_second": metrics.fps_mean,
        "latency_ms": latency,
        **{name: getattr(items, name, 0) for name in ("arrived", "delivered", "in_flight")},
        "drops": dict(drops_of(session)),
        "others_share": session.others_cpu_share,
    }


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
    source = "an RTSP server" if result.source == "rtsp" else "a paced file"
    notes = (
        f"`headrace run` of {result.model} on {source}, 720p at 30 frames/s, for "
        f"{result.minutes:g} min, its page open in one browser. Judged after "
        f"{result.warm_up_seconds:.0f} s: memory by least squares over samples, allowing 1% and "
        f"what the run keeps of each step for its report ({per_minute:.1f} MiB a minute, for the "
        "first 100,000 steps). Level: the second half held no more than the first, by its median. "
        f"Latency counts from {'arrival' if latency is None else latency.base}.\n"
        f"{where(result.provenance, result.others_share)}"
    )
    return f"{table((f'{result.minutes:g} min', ''), lines)}\n\n{notes}"


def _range(values: tuple[float, ...]) -> str:
    return f"{min(values, default=0):.0f}–{max(values, default=0):.0f}"
