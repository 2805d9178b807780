"""Does a live run stay as it is: its memory, its threads, its open files?

python -m benchmarks.soak --minutes 1    # a first look
python -m benchmarks.soak                # a record that is kept; 10 minutes and a half

`headrace run` on 720p at 30 frames a second, with its page on and one client that asks for every
picture and every second for the figures, as a browser does.
"""

import math
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any, Literal
from urllib.error import HTTPError
from urllib.request import urlopen

import psutil

from benchmarks.kit import Benchmark
from benchmarks.live.figures import Conserved, Part, Quantiles, Series, sampled
from benchmarks.live.source import numbered_clip
from benchmarks.markdown import figure, table, yes
from benchmarks.media import DEFAULT_ROOT, loop_media
from benchmarks.record import Result, origin
from benchmarks.worker import ROOT, headrace_command
from headrace.profiling.metrics import Metrics
from headrace.profiling.session import Session
from headrace.report.totals import count_drops
from headrace.runtime.threads import ThreadGroup, call_every
from headrace.testing.rtsp import RtspServer, can_serve_rtsp

STEP_BYTES = 200
"""Bytes that a run records per step: about fifteen numbers, and waits in five queues. Bounded to
the last 100,000 steps and 65,536 waits: about 20 MB."""


class LongLatency(Quantiles):
    """Age of a frame at its result, in milliseconds."""

    base: str
    """Base of the age."""
    p99: float | None = None
    """None: too few samples."""


class SoakResult(Result, Part, Conserved):
    """One long run."""

    minutes: float
    source: str
    model: str
    warm_up_seconds: float
    """Uncounted start of the run."""
    outcome: str
    """Frames of the run, by its session."""
    frames_per_second: float | None = None
    latency_ms: LongLatency | None = None
    rss_bytes: Series
    threads: Series
    open_files: Series
    pictures: int
    """Images received by the client."""
    refused: int
    """Requests answered with an error."""

    @property
    def warm_rss(self) -> Series:
        """Memory after the warm-up."""
        return self.rss_bytes.after(self.warm_up_seconds)

    @property
    def is_memory_flat(self) -> bool:
        """Whether it grew by at most its record of the steps in that time, and 1 %."""
        found, fps = self.warm_rss, self.frames_per_second or 0.0
        if not found.values:
            return False
        record_bytes = STEP_BYTES * fps * (found.at_seconds[-1] - found.at_seconds[0])
        return found.growth <= record_bytes + max(found.values) / 100

    def is_level(self, series: Series) -> bool:
        """Whether the median of the second half after the warm-up is at most that of the first.

        The median, not the maximum: a sample may catch a connection that is about to close.
        """
        values = series.after(self.warm_up_seconds).values
        half = len(values) // 2
        return half > 0 and median(values[half:]) <= median(values[:half])

    @property
    def are_level(self) -> bool:
        """Whether threads and open files are."""
        return self.is_level(self.threads) and self.is_level(self.open_files)

    @property
    def is_right(self) -> bool:
        """Whether it ended normally and all checks passed."""
        is_kept = self.is_conserved and self.is_memory_flat and self.are_level
        return self.outcome == "complete" and is_kept


def session_fields(session: Session) -> dict[str, Any]:
    """Return the fields from the run's session."""
    metrics, latency = Metrics.of(session), None
    if (age := metrics.latency) is not None:
        figures = {name: getattr(age.ms, name) for name in ("count", "p50", "p95", "p99")}
        latency = LongLatency(base=age.base, worst=age.ms.maximum, **figures)
    names = ("arrived", "delivered", "in_flight")
    return {
        "outcome": session.outcome,
        "frames_per_second": metrics.fps_mean,
        "latency_ms": latency,
        **{name: getattr(session.items, name, 0) for name in names},
        "drops": dict(count_drops(session)),
        "others_share": session.others_cpu_share,
    }


def soak(result: SoakResult) -> str:
    """Return the text of the parameters and results."""
    memory, latency = result.warm_rss, result.latency_ms
    lines = [
        ("came to its end", yes(result.outcome == "complete")),
        ("frames", f"{result.arrived:,}"),
        *((f"dropped, {words}", f"{count:,}") for words, count in sorted(result.drops.items())),
        ("arrived = delivered + dropped + in flight", yes(result.is_conserved)),
        ("frames/s", f"{result.frames_per_second or 0:.2f}"),
    ]
    for name in ("p50", "p95", "p99", "worst") if latency else ():
        value = figure(getattr(latency, name), ",.0f")
        lines.append((f"latency, {name}", f"{value} ms" if value else "too few"))
    lines += [
        ("memory", f"{max(memory.values, default=0) / 2**20:,.0f} MiB"),
        ("its slope", f"{memory.slope * 60 / 2**20:+.2f} MiB a minute"),
        ("flat, but for the record of the steps", yes(result.is_memory_flat)),
        ("threads", _range(result.threads.after(result.warm_up_seconds).values)),
        ("open files", _range(result.open_files.after(result.warm_up_seconds).values)),
        ("threads and open files level", yes(result.are_level)),
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
        f"{result.where}"
    )
    return table((f"{result.minutes:g} min", ""), lines, notes)


def _range(values: tuple[float, ...]) -> str:
    return f"{min(values, default=0):.0f}–{max(values, default=0):.0f}"


_START_SECONDS = 60
"""Time limit until the page is up, and beyond the run time until the exit."""
_ENDING_SECONDS = 1
"""End of sampling before the end of the run, when it closes its files."""
_WATCH = "Watch it at "


def measure(
    *,
    minutes: float = 10.0,
    model: str = "mobilenet_v2",
    source: Literal["rtsp", "file"] = "rtsp",
    sample_seconds: float = 5.0,
    warm_up: float = 120.0,
    clip_seconds: int = 80,
    media: Path = DEFAULT_ROOT,
) -> Iterator[SoakResult]:
    """Run and sample.

    Args:
        minutes: that it lasts
        model: of torchvision, with random weights
        source: a server, or a paced file
        sample_seconds: between two samples
        warm_up: seconds that memory is not judged by
        clip_seconds: of the video that is repeated
        media: folder of the clip
    """
    if source == "rtsp" and not can_serve_rtsp():
        sys.exit("no GStreamer RTSP server; run scripts/system_packages.sh, or give --source file")
    asked: dict[str, Any] = {"minutes": minutes, "source": source, "model": model}
    made = origin(**asked, sample_seconds=sample_seconds, warm_up=warm_up)
    times = math.ceil((minutes * 60 + _START_SECONDS) / clip_seconds)
    clip = loop_media(numbered_clip(media, clip_seconds), times).resolve()
    with TemporaryDirectory() as folder, _served(clip, source) as address:
        out = Path(folder) / "run"
        samples, client = _soak(address, model, minutes * 60, sample_seconds, out)
        session = Session.load(out / "session.json")
    series: dict[str, Any] = {
        name: Series.of((round(seconds, 2), sample[place]) for seconds, sample in samples)
        for place, name in enumerate(("rss_bytes", "threads", "open_files"))
    }
    series |= {"pictures": client.pictures, "refused": client.refused, **session_fields(session)}
    yield SoakResult(provenance=made, warm_up_seconds=warm_up, **asked, **series)


@contextmanager
def _served(clip: Path, source: str) -> Iterator[list[str]]:
    """Return the command line arguments of the source."""
    if source == "file":
        yield [str(clip), "--pace", "realtime"]
        return
    server = RtspServer()
    server.start(clip)
    try:
        yield [server.url()]
    finally:
        server.kill()


def _soak(
    address: list[str], model: str, seconds: float, sample_seconds: float, out: Path
) -> tuple[list[tuple[float, tuple[float, ...]]], "_Client"]:
    """Samples of (seconds, (bytes, threads, open files)), and the client."""
    log = out.with_suffix(".log")
    words = ["--model-name", model, "--weights", "none", "--no-video", "--view", "web"]
    words += ["--web-port", "0", "--max-seconds", str(seconds), "--out", str(out)]
    command = headrace_command("run", *address, "--quiet", *words)
    with log.open("w", encoding="utf-8") as written:
        run = subprocess.Popen(command, cwd=ROOT, stdout=written, stderr=subprocess.STDOUT)
        try:
            client = _Client(_page_of(log, run))
            watched = psutil.Process(run.pid)

            def sample() -> tuple[float, ...]:
                return watched.memory_info().rss, watched.num_threads(), watched.num_fds()

            with (
                client.browsing(),
                sampled(sample, sample_seconds) as samples,
                suppress(subprocess.TimeoutExpired),
            ):
                run.wait(seconds - _ENDING_SECONDS)
            try:
                run.wait(_ENDING_SECONDS + _START_SECONDS)
            except subprocess.TimeoutExpired:
                sys.exit(f"the run did not end {_START_SECONDS} s after its time")
            if run.returncode:
                sys.exit(f"the run failed: {log.read_text('utf-8').strip().splitlines()[-1]}")
            return samples, client
        finally:
            run.kill()
            run.wait()


def _page_of(log: Path, run: "subprocess.Popen[bytes]") -> str:
    until = monotonic() + _START_SECONDS
    while monotonic() < until and run.poll() is None:
        for line in log.read_text("utf-8").splitlines():
            if line.startswith(_WATCH):
                return line.removeprefix(_WATCH).strip()
        sleep(0.1)
    sys.exit(f"no page: {log.read_text('utf-8').strip() or 'the run said nothing'}")


@dataclass
class _Client:
    """Client of the page of a run."""

    page: str
    pictures: int = 0
    refused: int = 0

    @contextmanager
    def browsing(self) -> Iterator[None]:
        """Request one image after the other, and the metrics every second, during the block."""
        is_over = threading.Event()

        def look() -> None:
            number = "0"
            while not is_over.is_set():
                headers = self._get(f"picture.jpg?after={number}")
                if headers is None:
                    is_over.wait(0.2)
                    continue
                number = headers.get("picture-number", number)
                self.pictures += 1

        with ThreadGroup(is_over.set) as threads, call_every(lambda: self._get("status.json"), 1.0):
            threads.start("browser", look)
            yield

    def _get(self, path: str) -> Any:
        """Return the headers of the answer; None without an answer."""
        try:
            with urlopen(f"{self.page}{path}", timeout=20) as answer:
                answer.read()
                return answer.headers if answer.status == 200 else None
        except HTTPError as error:
            self.refused += 1
            error.close()
        except OSError:
            pass  # the run has ended
        return None


BENCHMARK = Benchmark(
    "soak", __doc__, measure, lambda result: f"{soak(result)}\nall of it: {yes(result.is_right)}"
)

if __name__ == "__main__":
    BENCHMARK.main()
