"""A live run without its record: sources in, answers out, all that is lost counted by its cause."""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any, Final

from headrace.errors import HeadraceError, OpenError, StageError, first_line
from headrace.live.clip_windows import ClipWindow
from headrace.live.drop_policy import (
    MOST_IN_FLIGHT,
    STALE,
    AgeLimit,
    DropLog,
    DropPolicy,
    OverloadWatch,
)
from headrace.live.live_edge import LATE
from headrace.live.source import Event, EventKind, LiveFrame, LiveSource
from headrace.runs.live.live_batches import ModelOutputs, ModelRunner
from headrace.runs.live.stages import StageFactory
from headrace.runs.stages import SOURCE, Transfer
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.flow_statistics import FlowStatistics
from headrace.runtime.item import DroppedItem, Item
from headrace.runtime.pipeline import Pipeline, Run
from headrace.runtime.queue import Cancelled
from headrace.runtime.stage_executor import OVERFLOW, SOURCE_FAILED
from headrace.runtime.synchronization import CapacityLimiter
from headrace.runtime.tracing import NO_OP_TRACER, Tracer
from headrace.runtime.waitable_source import MergedSource, WaitableSource, Waiter

STRIDE: Final = "stride"
"""Why frames are dropped that nobody asked for."""
_TOO_MANY: Final = frozenset([OVERFLOW, STALE, LATE])
"""Why frames are dropped that come faster than they are worked on."""
_RECENT: Final = 9
"""Batches whose work tells what the next one costs."""
_EVENTS_KEPT: Final = 20_000
"""The latest ones, some 5 MB: a camera that flaps for weeks fills no memory."""
_RATE_KEPT: Final = 256
"""Arrivals that the rate of a source is told from: more than come in a second."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LivePlan:
    """What a live run consists of."""

    sources: Sequence[LiveSource]
    engine: ModelRunner
    overload: DropPolicy
    batch_size: int = 1
    clips: ClipWindow | None = None
    """None: the model takes single frames."""
    stride: int = 1
    """1 means every frame."""
    max_seconds: float | None = None
    """When to stop reading; None means at the end of the sources."""
    carrier: Transfer | None = None
    """What takes batches to the device; None where they lie there already."""
    show: Callable[[ModelOutputs], object] | None = None
    """Hands results to the sinks, if there are any."""

    @property
    def is_live(self) -> bool:
        """Frames come at a pace of their own."""
        return any(source.base != "full_speed" for source in self.sources)


@dataclass(eq=False)
class Reading:
    """How far one source was read."""

    arrived: int = 0
    has_frames: bool = False
    is_over: bool = False
    error: HeadraceError | None = None
    failed_ns: int = 0
    waiter: Waiter | None = None
    size: tuple[int, int] | None = None
    """(height, width) of its latest frame."""
    told: Counter[EventKind] = field(default_factory=Counter)
    """How often it told what, from the start."""
    recent_ns: deque[int] = field(default_factory=lambda: deque(maxlen=_RATE_KEPT))
    """When its latest frames came."""


@dataclass(eq=False)
class LiveFlow:
    """One run of a plan: `with LiveFlow(plan) as flow: for item in flow: ...`, once.

    Yields the `Item` of each batch or clip that came out, in order. A source that fails after its
    first frame ends alone; the others go on.

    Iterating raises:
        HeadraceError: a source failed before its first frame, or none of them came to its end; none
            gave a frame in the time there was; the model or another stage failed.
        StageError: frames went missing without a cause, which is a fault of headrace.
    """

    plan: LivePlan
    clock: Clock = SYSTEM_CLOCK
    marks: Tracer = NO_OP_TRACER
    """Hear of each frame, batch or clip that is worked on."""
    drops: DropLog = field(default_factory=DropLog)
    """Read it when the run is over."""
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=_EVENTS_KEPT))
    """What the sources told last, in the order they did."""
    on_event: Callable[[Event], None] = field(default=lambda event: None)
    """Hears at once of all that happens, overload and failed sources too; in any thread."""

    def __post_init__(self) -> None:
        plan = self.plan
        self.readings = [Reading() for _ in plan.sources]
        self._withheld = 0
        self._work_seconds: deque[float] = deque(maxlen=_RECENT)
        self._delivered = 0
        self._room = (
            None if plan.overload.keeps_all else CapacityLimiter(MOST_IN_FLIGHT, clock=self.clock)
        )
        self._deadline: Waiter | None = None
        self._is_past_it = False
        self._overload = OverloadWatch()
        line = StageFactory(
            engine=plan.engine,
            limit=AgeLimit(seconds=plan.overload.max_staleness_seconds, clock=self.clock),
            room=self._room,
            batch_size=plan.batch_size,
            clips=plan.clips,
            waits=not plan.is_live,
            carrier=plan.carrier,
            show=plan.show,
        )
        # Where clips are made frames never overflow: it would tear every clip apart.
        drops_frames = not plan.overload.keeps_all and plan.clips is None
        self._run = Pipeline(
            source=MergedSource(feeds=self._feeds(), on_error="end"),
            stages=line.stages(),
            capacity=plan.overload.queue,
            source_capacity=plan.overload.queue * len(plan.sources),
            source_name=SOURCE,
            overflow="drop_oldest" if drops_frames else "wait",
            lanes=len(plan.sources) if drops_frames else 1,
        ).run(clock=self.clock, tracer=self.marks)

    @property
    def run(self) -> Run:
        """The pipeline at work: what its stages and queues did so far."""
        return self._run

    def __enter__(self) -> "LiveFlow":
        return self

    def __exit__(self, *_: object) -> None:
        self._run.close()

    def __iter__(self) -> Iterator[Item[ModelOutputs]]:
        for item in self._run:
            if self._room is not None and (not item.is_dropped or len(item.spans) > 2):
                self._give_back(self._room, item)
            if isinstance(item.value, DroppedItem):
                self._note_drop(item, item.value)
            else:
                self._delivered += item.parts
                yield item
            words = self._overload.end(self.clock.now_ns())
            self._tell(None, "recovered", words, self._overload.frames)
        self._check_end()

    def conserved(self) -> FlowStatistics:
        """Return what became of all frames, once the run is over.

        Raises:
            StageError: arrived = delivered + dropped + in flight does not hold, as this side
                counted what arrived and what was delivered.
        """
        flow = self._run.flow()
        arrived = sum(reading.arrived for reading in self.readings)
        accounted = flow.delivered + sum(flow.dropped.values()) + flow.in_flight
        if not arrived == flow.arrived == accounted or self._delivered > flow.delivered:
            raise StageError(
                f"{arrived} frames arrived, {flow.arrived} were taken and {accounted} accounted "
                "for; this is a fault of headrace: please report it with the session",
                stage=SOURCE,
            )
        return flow

    def _feeds(self) -> list[WaitableSource[LiveFrame | DroppedItem]]:
        feeds: list[WaitableSource[Any]] = [
            WaitableSource(read=partial(self._read, number)) for number in range(len(self.readings))
        ]
        if self.plan.max_seconds is not None:
            feeds.append(WaitableSource(read=partial(self._stop_after, self.plan.max_seconds)))
        return feeds

    def _read(self, number: int, waiter: Waiter) -> Iterator[LiveFrame | DroppedItem]:
        reading = self.readings[number]
        reading.waiter = waiter
        stride = self.plan.stride
        try:
            for value in self.plan.sources[number].frames(number, waiter, self._note):
                if self._is_past_it:
                    return
                reading.arrived += 1
                if isinstance(value, LiveFrame):
                    reading.has_frames = True
                    reading.size = value.pixels.shape[0], value.pixels.shape[1]
                    reading.recent_ns.append(self.clock.now_ns())
                is_unwanted = isinstance(value, LiveFrame) and value.number % stride
                yield DroppedItem(STRIDE) if is_unwanted else value
        except (Cancelled, GeneratorExit):
            raise
        except BaseException:
            reading.arrived += 1  # it takes the place of a frame
            raise
        finally:
            reading.is_over = True
            if self._deadline is not None and all(each.is_over for each in self.readings):
                self._deadline.wake()

    def _note(self, event: Event) -> None:
        assert event.source is not None
        self.readings[event.source].told[event.kind] += 1
        self.events.append(event)
        self.on_event(event)

    def _tell(
        self, source: int | None, kind: EventKind, words: str | None, frames: int = 0
    ) -> None:
        if words is not None:
            at_ns = self.clock.now_ns()
            self.on_event(Event(at_ns=at_ns, source=source, kind=kind, words=words, frames=frames))

    def _stop_after(self, seconds: float, waiter: Waiter) -> Iterator[Any]:
        self._deadline = waiter
        if all(each.is_over for each in self.readings):
            return
        waiter.pause(seconds)
        self._is_past_it = True
        for reading in self.readings:
            if reading.waiter is not None:
                reading.waiter.wake()
        yield from ()

    def _give_back(self, room: CapacityLimiter, item: Item[Any]) -> None:
        if not item.is_dropped:
            self._work_seconds.append(sum(span.work_ns for span in item.spans[1:]) / 1e9)
        work = median(self._work_seconds) if self._work_seconds else 0.0
        withheld = MOST_IN_FLIGHT - self.plan.overload.in_flight(work)
        room.release(1 + self._withheld - withheld)
        self._withheld = withheld

    def _note_drop(self, item: Item[Any], dropped: DroppedItem) -> None:
        if dropped.cause != SOURCE_FAILED or item.source is None or dropped.error is None:
            stage = item.spans[-1].stage
            if dropped.cause in _TOO_MANY:
                where, now_ns = f"{dropped.cause} at {stage}", self.clock.now_ns()
                words = self._overload.drop(now_ns, where, item.parts)
                self._tell(None, "overloaded", words, self._overload.frames)
            # Of what a source drops itself it tells itself, in its own words.
            if stage != SOURCE or dropped.cause == OVERFLOW:
                self.drops.add(
                    self.clock.now_ns(),
                    source=item.source,
                    stage=stage,
                    cause=dropped.cause,
                    frames=item.parts,
                )
            return
        reading = self.readings[item.source]
        reading.error, reading.failed_ns = dropped.error, self.clock.now_ns()
        if not reading.has_frames:
            raise dropped.error
        self._tell(item.source, "failed", first_line(dropped.error))

    def _check_end(self) -> None:
        errors = [reading.error for reading in self.readings]
        if all(errors) and errors[-1] is not None:
            raise errors[-1]
        if self._is_past_it and not any(reading.arrived for reading in self.readings):
            names = ", ".join(source.name for source in self.plan.sources)
            raise OpenError(
                f"no frame came from {names} within {self.plan.max_seconds:g} s; see whether it "
                "sends, or give it longer (--max-seconds)",
                source=names,
            )
