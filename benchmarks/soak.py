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
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import psutil

from benchmarks.kit import Benchmark, flag, parameters
from benchmarks.live.clip import numbered_clip
from benchmarks.live.figures import Series
from benchmarks.live.soak_summary import SoakResult, told
from benchmarks.media import DEFAULT_ROOT, looped
from benchmarks.record import origin
from benchmarks.resources import sampled
from benchmarks.worker import ROOT
from headrace.profiling.session import Session
from headrace.testing.rtsp import RtspServer, can_serve_rtsp

_START_SECONDS = 60
"""That a run may take until its page is there, and beyond its time until it has ended."""
_ENDING_SECONDS = 1
"""Before its time is over, that it is no longer watched: then it closes what it has."""
_WATCH = "Watch it at "


def measure(options: Namespace) -> Iterator[SoakResult]:
    """Run and watch."""
    if options.source == "rtsp" and not can_serve_rtsp():
        sys.exit("no GStreamer RTSP server; run scripts/system_packages.sh, or give --source file")
    made = origin(parameters(options, "minutes", "source", "model", "sample_seconds", "warm_up"))
    times = math.ceil((options.minutes * 60 + _START_SECONDS) / options.clip_seconds)
    clip = looped(numbered_clip(options.media, options.clip_seconds), times).resolve()
    with TemporaryDirectory() as folder, _served(clip, options.source) as address:
        out = Path(folder) / "run"
        samples, client = _soak(address, options, out)
        session = Session.load(out / "session.json")
    series: dict[str, Any] = {
        name: Series.of((round(seconds, 2), sample[place]) for seconds, sample in samples)
        for place, name in enumerate(("rss_bytes", "threads", "open_files"))
    }
    yield SoakResult(
        provenance=made,
        warm_up_seconds=options.warm_up,
        **series,
        pictures=client.pictures,
        refused=client.refused,
        **parameters(options, "minutes", "source", "model"),
        **told(session),
    )


@contextmanager
def _served(clip: Path, source: str) -> Iterator[list[str]]:
    """The words of a command line that name the source."""
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
    address: list[str], options: Namespace, out: Path
) -> tuple[list[tuple[float, tuple[float, ...]]], "_Client"]:
    """Samples of (seconds, (bytes, threads, open files)), and the client."""
    log = out.with_suffix(".log")
    command = [sys.executable, "-m", "headrace", "run", *address, "--quiet"]
    command += ["--model-name", options.model, "--weights", "none", "--no-video"]
    command += ["--view", "web", "--web-port", "0"]
    command += ["--max-seconds", str(options.minutes * 60), "--out", str(out)]
    with log.open("w", encoding="utf-8") as written:
        run = subprocess.Popen(command, cwd=ROOT, stdout=written, stderr=subprocess.STDOUT)
        try:
            client = _Client(_page_of(log, run))
            watched = psutil.Process(run.pid)

            def sample() -> tuple[float, ...]:
                return watched.memory_info().rss, watched.num_threads(), watched.num_fds()

            with (
                client,
                sampled(sample, options.sample_seconds) as samples,
                suppress(subprocess.TimeoutExpired),
            ):
                run.wait(options.minutes * 60 - _ENDING_SECONDS)
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


class _Client:
    """Asks for one picture after the other, and for the figures every second."""

    def __init__(self, page: str) -> None:
        self.pictures = 0
        self.refused = 0
        self._page = page
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=each) for each in (self._look, self._ask)]

    def __enter__(self) -> "_Client":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _look(self) -> None:
        number = "0"
        while not self._is_over.is_set():
            headers = self._get(f"picture.jpg?after={number}")
            if headers is None:
                self._is_over.wait(0.2)
                continue
            number = headers.get("picture-number", number)
            self.pictures += 1

    def _ask(self) -> None:
        while not self._is_over.wait(1.0):
            self._get("status.json")

    def _get(self, path: str) -> Any:
        """The headers of the answer; None where there is none."""
        try:
            with urlopen(f"{self._page}{path}", timeout=20) as answer:
                answer.read()
                return answer.headers if answer.status == 200 else None
        except HTTPError as error:
            self.refused += 1
            error.close()
        except (URLError, OSError):
            return None  # the run has ended
        return None


BENCHMARK = Benchmark(
    name="soak",
    about=__doc__,
    flags={
        "minutes": flag(10.0),
        "model": flag("mobilenet_v2", "of torchvision, with random weights"),
        "source": flag("rtsp", "a server, or a paced file", choices=("rtsp", "file")),
        "sample_seconds": flag(5.0),
        "warm_up": flag(120.0, "seconds that memory is not judged by"),
        "clip_seconds": flag(80, "of the video that is repeated"),
        "media": flag(DEFAULT_ROOT, "folder of the clip"),
    },
    measure=measure,
    result=SoakResult,
    text=lambda result: "\n".join(result.verdicts()),
)

if __name__ == "__main__":
    BENCHMARK.main()
