"""How a live run is, as a value: for its page, for programs that watch its health."""

from collections.abc import Callable
from typing import Final, Literal

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from headrace.profiling.provenance import Record, Text
from headrace.profiling.session import Pace
from headrace.profiling.stage_records import ItemCounts
from headrace.runtime.clock import Clock

SourceState = Literal["connecting", "live", "stalled", "reconnecting", "ended", "failed"]
"""Before its first frame; frames come; connected, but none come; connection lost, and tried again;
over as it should be; given up."""
RunState = Literal["starting", "running", "ended"]
"""Loading and connecting; until its sources end; results come no more."""


class LatencyStatus(Record):
    """How old results were when they came out, over the last `window_seconds`."""

    base: Pace
    """What it counts from: `schedule`, `arrival` or `capture`; never `full_speed`."""
    window_seconds: NonNegativeFloat
    """Results of the last so many seconds are in it."""
    count: NonNegativeInt
    """How many those are."""
    p50_ms: float | None
    """None when there are none."""
    p95_ms: float | None
    """None: n too small, see `P95_SAMPLES`."""


class SourceStatus(Record):
    """One source and its connection."""

    name: Text
    """For a reader, without credentials; different for each source."""
    state: SourceState
    since_seconds: NonNegativeFloat
    """How long it has been in that state."""
    words: Text = ""
    """What is being done about it, or why: `attempt 3 in 4 s`, `joined 640 ms behind`."""
    fps: NonNegativeFloat = 0.0
    """Frames that arrived in the last second."""
    height: PositiveInt | None = None
    """Of its frames, in pixels, upright; None before the first."""
    width: PositiveInt | None = None
    frames: NonNegativeInt = 0
    """That arrived so far."""
    reconnects: NonNegativeInt = 0
    """How often its connection was made anew."""
    stalls: NonNegativeInt = 0
    """How often its frames stopped while it was connected."""


class StageStatus(Record):
    """What one stage takes, over the same results as the latency."""

    name: Text
    p50_ms: NonNegativeFloat | None
    """Work on one step (a batch or a clip); None before the first."""
    p95_ms: NonNegativeFloat | None
    """None: n too small."""
    busy: NonNegativeFloat
    """Share of its workers' time at work, in [0, 1]. Near 1: it sets the pace."""


class QueueStatus(Record):
    """One queue, as full as it is now."""

    name: Text
    depth: NonNegativeInt
    """Items inside."""
    capacity: PositiveInt


class DropStatus(Record):
    """Items that ended on their way for one cause at one stage, since the start."""

    stage: Text
    cause: Text
    items: NonNegativeInt


class EventStatus(Record):
    """One thing that happened to a source, or to a sink."""

    wall_seconds: NonNegativeFloat
    """When, in seconds since 1970-01-01 UTC."""
    source: Text
    """Name of the source; empty for a sink."""
    kind: Text
    """An `EventKind`, or `failed`."""
    words: Text
    """For a reader, without credentials."""


class LiveStatus(Record):
    """All that is shown of a live run, at the moment it was asked."""

    title: Text
    """What runs on what: `resnet18 on rtsp://10.0.0.7/door`; no credentials."""
    state: RunState
    wall_seconds: NonNegativeFloat
    """When it was asked, in seconds since 1970-01-01 UTC."""
    running_seconds: NonNegativeFloat
    """Since the run began."""
    seconds_since_last_result: NonNegativeFloat | None
    """Since the last result came out; None before the first."""
    fps: NonNegativeFloat
    """Frames whose results came out in the last second."""
    latency: LatencyStatus | None
    """None before the first result."""
    jitter_ms: NonNegativeFloat | None
    """Latency jitter: std of the intervals between results, over the window of `latency`; None
    before the third result."""
    frames: ItemCounts
    """arrived = delivered + dropped + in flight, since the start."""
    drops: tuple[DropStatus, ...] = ()
    """Largest first; they add up to `frames.dropped`."""
    sink_drops: tuple[DropStatus, ...] = ()
    """Results that a sink did not get, since it was too slow or failed: delivered all the same."""
    sources: tuple[SourceStatus, ...] = ()
    """In the order they were asked for."""
    stages: tuple[StageStatus, ...] = ()
    """In the order the frames take."""
    queues: tuple[QueueStatus, ...] = ()
    """In the order the frames take."""
    events: tuple[EventStatus, ...] = ()
    """The latest first; a dozen are enough."""


FRESH_NS: Final = 250_000_000
"""As long a status serves everybody: shorter than a reader notices."""


class StatusCache:
    """The status of a run, at most a quarter of a second old. For one thread."""

    def __init__(self, ask: Callable[[], LiveStatus], clock: Clock) -> None:
        """Ask nothing yet."""
        self._ask = ask
        self._clock = clock
        self._asked_ns = 0
        self._status: LiveStatus | None = None
        self._text = b""

    def status(self) -> LiveStatus:
        """Return how the run is."""
        now_ns = self._clock.now_ns()
        if self._status is None or now_ns - self._asked_ns >= FRESH_NS:
            self._status, self._asked_ns, self._text = self._ask(), now_ns, b""
        return self._status

    def text(self) -> bytes:
        """Return the same as JSON, written once for everybody."""
        status = self.status()
        if not self._text:
            self._text = status.model_dump_json().encode()
        return self._text


class Health(Record):
    """Whether results come, in a word and a sentence."""

    is_good: bool
    """False: no result for too long, or never again."""
    words: str
    """What is the matter, and of which sources."""


def health(status: LiveStatus, timeout_seconds: float) -> Health:
    """Say how a run is that may be silent for `timeout_seconds`, also before its first result.

    One source of several that is down is named, and no bad health: to start the run again would
    cost the others.
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
        first = "the run has ended"
    elif not is_good:
        first = f"no result for {silence:.0f} s, more than {timeout_seconds:g} s"
    elif status.seconds_since_last_result is None:
        first = "starting"
    else:
        first = "results come"
    return Health(is_good=is_good, words="; ".join([first, *down]))
