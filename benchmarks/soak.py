"""Do the memory, threads or open files of a long live run grow?

python -m benchmarks.soak --minutes 1    # a first look
python -m benchmarks.soak                # the full run, 10.5 minutes

`headrace run` reads 720p at 30 frames per second and serves its page. One client requests every
image, and the metrics every second, like a browser.
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
from headrace.runtime.synchronization import ThreadGroup, call_every
from headrace.testing.rtsp import RtspServer, can_serve_rtsp

STEP_BYTES = 200
"""Bytes recorded per step: about fifteen numbers, and the waits in five queues. The record has at
most 100,000 steps and 65,536 waits, about 20 MB."""


class LongLatency(Quantiles):
    """Age of a frame at its result, in milliseconds."""

    base: str
    """Start of the age: `arrival`, `schedule`."""
    p99: float | None = None
    """None: too few samples."""


class SoakResult(Result, Part, Conserved):
    """One long run."""

    minutes: float
    source: str
    model: str
    warm_up_seconds: float
    """Start of the run that is left out of all checks."""
    outcome: str
    """Outcome in the run's session."""
    frames_per_second: float | None = None
    latency_ms: LongLatency | None = None
    rss_bytes: Series
    threads: Series
    open_files: Series
    pictures: int
    """Images received by the client."""
    refused: int
    """Requests that failed with an HTTP error."""

    @property
    def warm_rss(self) -> Series:
        """Memory after the warm-up."""
        return self.rss_bytes.after(self.warm_up_seconds)

    @property
    def is_memory_flat(self) -> bool:
        """Whether memory grew by at most 1 % plus the record of the steps."""
        rss, fps = self.warm_rss, self.frames_per_second or 0.0
        if not rss.values:
            return False
        record_bytes = STEP_BYTES * fps * (rss.at_seconds[-1] - rss.at_seconds[0])
        return rss.growth <= record_bytes + max(rss.values) / 100

    def is_level(self, series: Series) -> bool:
        """Whether the median of the second half after the warm-up is at most that of the first.

        The median, because single samples may include a connection that is about to close.
        """
        values = series.after(self.warm_up_seconds).values
        half = len(values) // 2
        return half > 0 and median(values[half:]) <= median(values[:half])

    @property
    def are_level(self) -> bool:
        """Whether threads and open files are level."""
        return self.is_level(self.threads) and self.is_level(self.open_files)

    @property
    def is_right(self) -> bool:
        """Whether the run completed and all checks passed."""
        is_constant = self.is_conserved and self.is_memory_flat and self.are_level
        return self.outcome == "complete" and is_constant


def session_fields(session: Session) -> dict[str, Any]:
    """Return fields of a `SoakResult` from the session of the run."""
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
    """Return a table of the run, with notes."""
    memory, latency = result.warm_rss, result.latency_ms
    lines = [
        ("completed", yes(result.outcome == "complete")),
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
        ("memory growth", f"{memory.slope * 60 / 2**20:+.2f} MiB a minute"),
        ("memory is flat, apart from the step record", yes(result.is_memory_flat)),
        ("threads", _range(result.threads.after(result.warm_up_seconds).values)),
        ("open files", _range(result.open_files.after(result.warm_up_seconds).values)),
        ("threads and open files do not grow", yes(result.are_level)),
        ("images received by the browser", f"{result.pictures:,}"),
    ]
    per_minute = (result.frames_per_second or 0.0) * 60 * STEP_BYTES / 2**20
    source = "an RTSP server" if result.source == "rtsp" else "a paced file"
    notes = (
        f"`headrace run` of {result.model} on {source}, 720p at 30 frames/s, for "
        f"{result.minutes:g} min, with its page open in one browser. The checks leave out the "
        f"first {result.warm_up_seconds:.0f} s. Memory is flat if it grows, by least squares, by "
        f"at most 1% plus the step record of the report ({per_minute:.1f} MiB a minute, up to "
        "100,000 steps). Threads and open files do not grow if the median of the second half is at "
        "most that of the first. Latency counts from "
        f"{'arrival' if latency is None else latency.base}.\n"
        f"{result.where}"
    )
    return table((f"{result.minutes:g} min", ""), lines, notes)


def _range(values: tuple[float, ...]) -> str:
    return f"{min(values, default=0):.0f}–{max(values, default=0):.0f}"


_START_SECONDS = 60
"""Max seconds until the page is served, and from the end of the run until the exit."""
_ENDING_SECONDS = 1
"""Seconds between the last sample and the end of the run, when it closes its files."""
_WATCH = "Watch it at "
"""Start of the line with the address of the page."""


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
    """Run, sample and check.

    Args:
        minutes: duration of the run
        model: torchvision model, with random weights
        source: RTSP server, or a file at its own frame rate
        sample_seconds: seconds between samples
        warm_up: seconds at the start that the checks leave out
        clip_seconds: duration of the clip that is repeated
        media: folder of the clip
    """
    if source == "rtsp" and not can_serve_rtsp():
        sys.exit("no GStreamer RTSP server; run scripts/system_packages.sh, or give --source file")
    parameters: dict[str, Any] = {"minutes": minutes, "source": source, "model": model}
    provenance = origin(**parameters, sample_seconds=sample_seconds, warm_up=warm_up)
    times = math.ceil((minutes * 60 + _START_SECONDS) / clip_seconds)
    clip = loop_media(numbered_clip(media, clip_seconds), times).resolve()
    with TemporaryDirectory() as folder, _served(clip, source) as address:
        out = Path(folder) / "run"
        samples, client = _soak(address, model, minutes * 60, sample_seconds, out)
        session = Session.load(out / "session.json")
    series: dict[str, Any] = {
        name: Series.of((round(seconds, 2), sample[column]) for seconds, sample in samples)
        for column, name in enumerate(("rss_bytes", "threads", "open_files"))
    }
    series |= {"pictures": client.pictures, "refused": client.refused, **session_fields(session)}
    yield SoakResult(provenance=provenance, warm_up_seconds=warm_up, **parameters, **series)


@contextmanager
def _served(clip: Path, source: str) -> Iterator[list[str]]:
    """Yield the command-line arguments of the source; the server runs during the block."""
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
    """Return samples of (seconds, (bytes, threads, open files)), and the client."""
    log = out.with_suffix(".log")
    words = ["--model-name", model, "--weights", "none", "--no-video", "--view", "web"]
    words += ["--web-port", "0", "--max-seconds", str(seconds), "--out", str(out)]
    command = headrace_command("run", *address, "--quiet", *words)
    with log.open("w", encoding="utf-8") as output:
        run = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
        try:
            client = _Client(_page_of(log, run))
            process = psutil.Process(run.pid)

            def sample() -> tuple[float, ...]:
                return process.memory_info().rss, process.num_threads(), process.num_fds()

            with (
                client.browsing(),
                sampled(sample, sample_seconds) as samples,
                suppress(subprocess.TimeoutExpired),
            ):
                run.wait(seconds - _ENDING_SECONDS)
            try:
                run.wait(_ENDING_SECONDS + _START_SECONDS)
            except subprocess.TimeoutExpired:
                sys.exit(f"the run did not end within {_START_SECONDS} s after its --max-seconds")
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
    sys.exit(f"no page: {log.read_text('utf-8').strip() or 'the run printed nothing'}")


@dataclass
class _Client:
    """HTTP client of the page of a run."""

    page: str
    pictures: int = 0
    refused: int = 0

    @contextmanager
    def browsing(self) -> Iterator[None]:
        """Request images one after another, and the metrics every second, during the block."""
        is_over = threading.Event()

        def request_images() -> None:
            number = "0"
            while not is_over.is_set():
                headers = self._get(f"picture.jpg?after={number}")
                if headers is None:
                    is_over.wait(0.2)
                    continue
                number = headers.get("picture-number", number)
                self.pictures += 1

        with ThreadGroup(is_over.set) as threads, call_every(lambda: self._get("status.json"), 1.0):
            threads.start("browser", request_images)
            yield

    def _get(self, path: str) -> Any:
        """Return the headers of the response; None: no response."""
        try:
            with urlopen(f"{self.page}{path}", timeout=20) as response:
                response.read()
                return response.headers if response.status == 200 else None
        except HTTPError as error:
            self.refused += 1
            error.close()
        except OSError:
            pass  # the run has ended
        return None


def text(result: SoakResult) -> str:
    """Return the table, and whether all checks passed."""
    return f"{soak(result)}\nall checks passed: {yes(result.is_right)}"


BENCHMARK = Benchmark("soak", __doc__, measure, text)

if __name__ == "__main__":
    BENCHMARK.main()
