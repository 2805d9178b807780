"""Status of a live run, as a value, and its health."""

from collections.abc import Callable
from typing import Final, Literal

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from headrace.profiling.provenance import Record, Text
from headrace.profiling.run_records import ItemCounts
from headrace.profiling.session import Pace
from headrace.runtime.clock import Clock

SourceState = Literal["connecting", "live", "stalled", "reconnecting", "ended", "failed"]
"""`connecting`: before the first frame; `stalled`: connected, without frames; `reconnecting`:
connection lost; `ended`: regular end; `failed`: given up."""
RunState = Literal["starting", "running", "ended"]
"""`starting`: before the first result; `running`: with results; `ended`: after the last one."""


class LatencyStatus(Record):
    """Latency of results, over the last `window_seconds`."""

    base: Pace
    """Event that latency counts from: `schedule`, `arrival` or `capture`."""
    window_seconds: NonNegativeFloat
    """Length of the window."""
    count: NonNegativeInt
    """Results in the window."""
    p50_ms: float | None
    """None without results."""
    p95_ms: float | None
    """None: too few results, see `P95_SAMPLES`."""


class SourceStatus(Record):
    """One source and its connection."""

    name: Text
    """Unique name, without credentials."""
    state: SourceState
    since_seconds: NonNegativeFloat
    """Time in this state."""
    words: Text = ""
    """Reason or progress: `attempt 3 in 4 s`, `joined 640 ms behind`."""
    fps: NonNegativeFloat = 0.0
    """Frames that arrived in the last second."""
    height: PositiveInt | None = None
    """Height of its upright frames in pixels; None before the first frame."""
    width: PositiveInt | None = None
    frames: NonNegativeInt = 0
    """Arrived frames."""
    reconnects: NonNegativeInt = 0
    """Reconnections."""
    stalls: NonNegativeInt = 0
    """Interruptions of its frames while connected."""


class StageStatus(Record):
    """Work of one stage, over the window of the latency."""

    name: Text
    p50_ms: NonNegativeFloat | None
    """Work on one step (a batch or a clip); None before the first step."""
    p95_ms: NonNegativeFloat | None
    """None: too few results."""
    busy: NonNegativeFloat
    """Busy share of its workers' time, in [0, 1]. Near 1 means the bottleneck."""


class QueueStatus(Record):
    """Current fill of one queue."""

    name: Text
    depth: NonNegativeInt
    """Items in the queue."""
    capacity: PositiveInt


class DropStatus(Record):
    """Items dropped for one cause at one stage, since the start."""

    stage: Text
    cause: Text
    items: NonNegativeInt


class EventStatus(Record):
    """One event of a source, or of the whole run."""

    wall_seconds: NonNegativeFloat
    """Unix time."""
    source: Text
    """Name of the source; empty: the whole run."""
    kind: Text
    """An `EventKind`, or `failed`."""
    words: Text
    """Description, without credentials."""


class LiveStatus(Record):
    """Status of a live run at one time."""

    title: Text
    """Model and sources: `resnet18 on rtsp://10.0.0.7/door`; no credentials."""
    state: RunState
    wall_seconds: NonNegativeFloat
    """Unix time of this status."""
    running_seconds: NonNegativeFloat
    """Time since the start of the run."""
    seconds_since_last_result: NonNegativeFloat | None
    """None before the first result."""
    fps: NonNegativeFloat
    """Frames with results in the last second."""
    latency: LatencyStatus | None
    """None before the first result."""
    jitter_ms: NonNegativeFloat | None
    """Latency jitter: std of the intervals between results, over the window of `latency`; None
    before the third result."""
    frames: ItemCounts
    """arrived = delivered + dropped + in flight, since the start."""
    drops: tuple[DropStatus, ...] = ()
    """Largest first; their sum is `frames.dropped`."""
    sink_drops: tuple[DropStatus, ...] = ()
    """Results dropped by a slow or failed sink; they count as delivered."""
    sources: tuple[SourceStatus, ...] = ()
    """In the order of the run's sources."""
    stages: tuple[StageStatus, ...] = ()
    """In pipeline order."""
    queues: tuple[QueueStatus, ...] = ()
    """In pipeline order."""
    events: tuple[EventStatus, ...] = ()
    """Latest first, at most a dozen."""


FRESH_NS: Final = 250_000_000
"""Lifetime of a cached status."""


class StatusCache:
    """Cache of the status of a run, for a quarter of a second. For one thread."""

    def __init__(self, read_status: Callable[[], LiveStatus], clock: Clock) -> None:
        """Read no status yet."""
        self._read_status = read_status
        self._clock = clock
        self._read_ns = 0
        self._status: LiveStatus | None = None
        self._text = b""

    def status(self) -> LiveStatus:
        """Return the status, at most a quarter of a second old."""
        now_ns = self._clock.now_ns()
        if self._status is None or now_ns - self._read_ns >= FRESH_NS:
            self._status, self._read_ns, self._text = self._read_status(), now_ns, b""
        return self._status

    def text(self) -> bytes:
        """Return the status as JSON, serialised once per read."""
        status = self.status()
        if not self._text:
            self._text = status.model_dump_json().encode()
        return self._text


class Health(Record):
    """Health of a run: whether results arrive."""

    is_good: bool
    """False: no result within the timeout, or the run has ended."""
    words: str
    """Reason, with the sources that are down."""


def health(status: LiveStatus, timeout_seconds: float) -> Health:
    """Return the health of a run: unhealthy after `timeout_seconds` without a result.

    A single source that is down is named, and does not make the run unhealthy: a restart would
    interrupt the others.
    """
    silence = (
        status.running_seconds
        if status.seconds_since_last_result is None
        else status.seconds_since_last_result
    )
    down = [
        f"{source.name} is {source.state} for {source.since_seconds:.0f} s"
        for source in status.sources
        if source.state not in ("live", "ended")
    ]
    is_good = status.state != "ended" and silence <= timeout_seconds
    if status.state == "ended":
        result = "the run has ended"
    elif not is_good:
        result = f"no result for {silence:.0f} s, more than {timeout_seconds:g} s"
    elif status.seconds_since_last_result is None:
        result = "starting"
    else:
        result = "results arrive"
    return Health(is_good=is_good, words="; ".join([result, *down]))
