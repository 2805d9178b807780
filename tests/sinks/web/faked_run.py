"""A fake live run, and requests to its page over real HTTP."""

import http.client
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headrace.models.results import Labels
from headrace.profiling.run_records import ItemCounts
from headrace.sinks.batch_results import BatchResults
from headrace.sinks.web.status import (
    DropStatus,
    EventStatus,
    LatencyStatus,
    LiveStatus,
    QueueStatus,
    SourceStatus,
    StageStatus,
)
from headrace.sinks.web.web_options import WebOptions
from headrace.sinks.web.web_sink import WebView
from headrace.testing.fake_clock import FakeClock
from sinks.made import frames

DOOR = "rtsp://10.0.0.7/door"
ANY_PORT = WebOptions(port=0, images_per_second=1e6)
"""Options without a limit of images per second: the fake clock does not advance."""


def source(name: str = DOOR, **changes: Any) -> SourceStatus:
    fields = {
        **{"name": name, "state": "live", "since_seconds": 754.2, "fps": 30.0},
        **{"height": 720, "width": 1280, "frames": 22_640},
    }
    return SourceStatus(**{**fields, **changes})


def status(**changes: Any) -> LiveStatus:
    """Return the status of a healthy run, with `changes`."""
    fields = {
        "title": f"resnet18 on {DOOR}",
        "state": "running",
        "wall_seconds": 1_700_000_000.0,
        "running_seconds": 760.0,
        "seconds_since_last_result": 0.031,
        "fps": 29.0,
        "latency": LatencyStatus(
            base="arrival", window_seconds=60, count=1_789, p50_ms=41.7, p95_ms=63.2
        ),
        "jitter_ms": 4.62,
        "frames": ItemCounts(arrived=22_640, delivered=22_101, dropped=536, in_flight=3),
        "drops": (
            DropStatus(stage="decode", cause="stale", items=530),
            DropStatus(stage="decode", cause="damaged", items=6),
        ),
        "sources": (source(),),
        "stages": (
            StageStatus(name="decode", p50_ms=4.1, p95_ms=6.0, busy=0.13),
            StageStatus(name="preprocess", p50_ms=3.3, p95_ms=4.1, busy=0.10),
            StageStatus(name="model", p50_ms=28.9, p95_ms=33.4, busy=0.86),
            StageStatus(name="sink", p50_ms=0.4, p95_ms=None, busy=0.01),
        ),
        "queues": (
            QueueStatus(name="decoded", depth=2, capacity=2),
            QueueStatus(name="prepared", depth=1, capacity=2),
            QueueStatus(name="web", depth=0, capacity=1),
        ),
        "events": (
            EventStatus(
                wall_seconds=1_699_999_246.0,
                source=DOOR,
                kind="joined",
                words="joined 640 ms behind",
            ),
        ),
    }
    return LiveStatus(**{**fields, **changes})


def labelled_frame(
    number: int,
    *,
    source: int = 0,
    shade: int = 96,
    size: tuple[int, int] = (72, 128),
    pts: int | None = None,
) -> BatchResults[Labels]:
    """Return one frame in a shade of grey, of a source with 30 frames/s."""
    batch = frames(number, 1, video=source, size=size)
    batch.frames[:] = shade
    if pts is not None:
        batch = replace(batch, pts=np.array([pts]))
    names, confidence = ("street sign", "traffic light"), (0.93, 0.04)
    return BatchResults(batch=batch, output=Labels(names=(names,), confidence=(confidence,)))


class FakedRun:
    """Run with a web page; its status is `run.status`."""

    def __init__(self, options: WebOptions, names: tuple[str, ...]) -> None:
        self.clock = FakeClock()
        self.status = status()
        self.status_reads = 0
        self.view = WebView(options, self._read_status, names, clock=self.clock)

    def set_status(self, status: LiveStatus) -> None:
        """Change the status, and advance the clock beyond the lifetime of the cached one."""
        self.status = status
        self.clock.advance(1)

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.view.port}"

    def _read_status(self) -> LiveStatus:
        self.status_reads += 1
        return self.status


@contextmanager
def faked_run(names: tuple[str, ...] = (DOOR,), **changes: Any) -> Iterator[FakedRun]:
    """Serve a run during the block; `changes`: fields of `WebOptions`."""
    run = FakedRun(replace(ANY_PORT, **changes), names)
    with run.view:
        yield run


TIMEOUT_SECONDS = 30
"""Far above the time of any response; reached only by a hang."""


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    """Values by lower-case name."""
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


def fetch(run: FakedRun, path: str, *, method: str = "GET", **headers: str) -> Reply:
    """Send one request; return the response. `sec_fetch_site="cross-site"` is a header."""
    connection = http.client.HTTPConnection("127.0.0.1", run.view.port, timeout=TIMEOUT_SECONDS)
    named: dict[str, Any] = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request(method, path, headers=named)
        reply = connection.getresponse()
        headers = {name.lower(): value for name, value in reply.getheaders()}
        return Reply(reply.status, headers, reply.read())
    finally:
        connection.close()


def connected(run: FakedRun, *, buffer: int | None = None) -> socket.socket:
    """Return a connection to the server; `buffer`: bytes of its receive buffer."""
    connection = socket.socket()
    if buffer is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    connection.settimeout(TIMEOUT_SECONDS)
    connection.connect(("127.0.0.1", run.view.port))
    return connection
