"""A live run that is set by hand, and requests to it over real HTTP."""

import http.client
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headrace.models.results import Labels
from headrace.profiling.stage_records import ItemCounts
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
"""Pictures come as fast as they are asked for: the fake clock stands still."""


def source(name: str = DOOR, **changes: Any) -> SourceStatus:
    found = {
        **{"name": name, "state": "live", "since_seconds": 754.2, "fps": 30.0},
        **{"height": 720, "width": 1280, "frames": 22_640},
    }
    return SourceStatus(**{**found, **changes})


def status(**changes: Any) -> LiveStatus:
    """A run that is well, but for `changes`."""
    found = {
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
    return LiveStatus(**{**found, **changes})


def seen(
    number: int,
    *,
    source: int = 0,
    shade: int = 96,
    size: tuple[int, int] = (72, 128),
    pts: int | None = None,
) -> BatchResults[Labels]:
    """One frame in one shade of grey, of 30 in a second."""
    made = frames(number, 1, video=source, size=size)
    made.frames[:] = shade
    batch = made if pts is None else replace(made, pts=np.array([pts]))
    names, confidence = ("street sign", "traffic light"), (0.93, 0.04)
    return BatchResults(batch=batch, output=Labels(names=(names,), confidence=(confidence,)))


class FakedRun:
    """What a page is shown: `run.status` is what it says when it is asked."""

    def __init__(self, options: WebOptions, names: tuple[str, ...]) -> None:
        self.clock = FakeClock()
        self.status = status()
        self.asked = 0
        self.view = WebView(options, self._say, names, clock=self.clock)

    def say(self, found: LiveStatus) -> None:
        """Changes what it says, and lets the time pass after which it is asked again."""
        self.status = found
        self.clock.advance(1)

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.view.port}"

    def _say(self) -> LiveStatus:
        self.asked += 1
        return self.status


@contextmanager
def faked_run(names: tuple[str, ...] = (DOOR,), **changes: Any) -> Iterator[FakedRun]:
    """A run that is served while the block lasts; `changes` are fields of `WebOptions`."""
    run = FakedRun(replace(ANY_PORT, **changes), names)
    with run.view:
        yield run


TIMEOUT_SECONDS = 30
"""Far above what any answer takes; reached only by a hang."""


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    """By names in lower case."""
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


def ask(run: FakedRun, path: str, *, method: str = "GET", **headers: str) -> Reply:
    """The answer to one request; `sec_fetch_site="cross-site"` is a header."""
    connection = http.client.HTTPConnection("127.0.0.1", run.view.port, timeout=TIMEOUT_SECONDS)
    named: dict[str, Any] = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request(method, path, headers=named)
        reply = connection.getresponse()
        found = {name.lower(): value for name, value in reply.getheaders()}
        return Reply(reply.status, found, reply.read())
    finally:
        connection.close()


def connected(run: FakedRun, *, buffer: int | None = None) -> socket.socket:
    """A connection to the server, with room for `buffer` bytes that are not read."""
    connection = socket.socket()
    if buffer is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    connection.settimeout(TIMEOUT_SECONDS)
    connection.connect(("127.0.0.1", run.view.port))
    return connection
