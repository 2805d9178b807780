"""Pipeline of a live run: sources in, model outputs out, drops counted by cause.

The stages are preprocess, transfer, model and show, with one thread each.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from typing import Any, Final

import torch

from headrace.errors import HeadraceError, OpenError, StageError, first_line
from headrace.live.drop_policy import (
    MAX_IN_FLIGHT,
    STALE,
    AgeLimit,
    DropLog,
    DropPolicy,
    FairAdmission,
    OverloadDetector,
    StaleFilter,
)
from headrace.live.live_source import ClipWindow, Event, EventKind, LiveFrame, LiveSource
from headrace.live.stream_reader import LATE
from headrace.runs.live.live_batches import ModelRunner, ViewBatch, split_outputs
from headrace.runs.run_stages import CLIPS, PREPROCESS, SOURCE, Transfer
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.pipeline import Pipeline, Run
from headrace.runtime.queue import Cancelled
from headrace.runtime.stage import (
    Aggregate,
    AnyStage,
    DroppedItem,
    FlowStatistics,
    Item,
    SlidingWindows,
    Stage,
)
from headrace.runtime.stage_executor import OVERFLOW, SOURCE_FAILED
from headrace.runtime.synchronization import CapacityLimiter
from headrace.runtime.tracing import NO_OP_TRACER, Tracer
from headrace.runtime.waitable_source import MergedSource, WaitableSource, Waiter

_BatchOrDrop = ViewBatch | DroppedItem
_BatchFunction = Callable[[ViewBatch], ViewBatch]
STRIDE: Final = "stride"
"""Drop cause of frames that are not multiples of the stride."""
_OVERLOAD_CAUSES: Final = frozenset([OVERFLOW, STALE, LATE])
"""Drop causes of an overload."""
_RECENT_BATCHES: Final = 9
"""Number of latest batches that estimate the work of the next batch."""
_MAX_EVENTS: Final = 20_000
"""Max stored events, about 5 MB, for unstable cameras."""
_MAX_ARRIVALS: Final = 256
"""Max stored arrivals for the frame rate: more than one second of frames."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LivePlan:
    """Plan of a live run."""

    sources: Sequence[LiveSource]
    model_runner: ModelRunner
    overload: DropPolicy
    batch_size: int = 1
    clips: ClipWindow | None = None
    """None: the model takes single frames."""
    stride: int = 1
    """Every n-th frame is used; 1: every frame."""
    max_seconds: float | None = None
    """Seconds after which reading stops; None: the end of the sources."""
    transfer: Transfer | None = None
    """Copy of batches to the model's device; None: the model is on the CPU."""
    show: Callable[[ViewBatch], object] | None = None
    """Passes results to the sinks; None: no sinks."""

    @property
    def is_live(self) -> bool:
        """Whether frames arrive in real time."""
        return any(source.base != "full_speed" for source in self.sources)


@dataclass(frozen=True, kw_only=True, eq=False)
class StageFactory:
    """Factory of the stages of one live run."""

    plan: LivePlan
    limit: AgeLimit
    in_flight: CapacityLimiter | None
    """Permits for batches between the first stage and the results; None: no limit."""

    def stages(self) -> list[AnyStage[Any, Any]]:
        """Return the stages in order; each first drops stale items.

        The preprocessing thread also groups frames into batches: a separate thread would cost a
        queue transfer per frame. Clips have a separate thread, which accepts frames while a clip is
        preprocessed.
        """
        stages: list[AnyStage[Any, Any]] = []
        clips, transfer, show = self.plan.clips, self.plan.transfer, self.plan.show
        if clips is None:
            stages.append(self._batch_stage())
        else:
            stages.append(self._clip_stage(clips))
            stages.append(Stage(name=PREPROCESS, function=self._if_fresh(self._prepare)))
        if transfer is not None:

            def move(batch: ViewBatch) -> ViewBatch:
                return replace(batch, tensor=transfer.carry(_tensor_of(batch)))

            stages.append(Stage(name="transfer", function=self._if_fresh(move)))
        stages.append(Stage(name="model", function=_Inference(self.plan.model_runner, self.limit)))
        if show is not None:

            def pass_on(batch: ViewBatch) -> ViewBatch:
                show(batch)
                return batch

            stages.append(Stage(name="show", function=self._if_fresh(pass_on)))
        return stages

    def _batch_stage(self) -> Aggregate[LiveFrame, ViewBatch]:
        def grouping() -> StaleFilter:
            windows: SlidingWindows[LiveFrame] = SlidingWindows(
                length=self.plan.batch_size, key=lambda item: item.value.pixels.shape
            )
            return StaleFilter(windows, self.limit)

        def prepare(frames: list[LiveFrame]) -> ViewBatch:
            return self._prepare(ViewBatch(views=tuple((f,) for f in frames), is_clips=False))

        return Aggregate(
            name=PREPROCESS,
            grouping=grouping,
            function=prepare,
            # In real time, a batch takes the available frames.
            waits=not self.plan.is_live,
            drops_freely=True,
            limiter=self.in_flight,
        )

    def _clip_stage(self, window: ClipWindow) -> Aggregate[LiveFrame, ViewBatch]:
        in_flight, admission = self.in_flight, FairAdmission()

        def admit(frames: list[LiveFrame]) -> ViewBatch | DroppedItem:
            clip = ViewBatch(views=(tuple(frames),), is_clips=True)
            if self.limit.is_over(clip.shown_ns):
                return DroppedItem(STALE)
            # Never wait here: dropped frames before this stage would break all clips.
            if in_flight is not None and not admission.admits(
                frames[-1].source, lambda: in_flight.acquire_nowait(1)
            ):
                return DroppedItem(OVERFLOW)
            return clip

        return Aggregate(name=CLIPS, grouping=window.windows, function=admit, drops_freely=True)

    def _if_fresh(self, function: _BatchFunction) -> "Callable[[ViewBatch], _BatchOrDrop]":
        def check(batch: ViewBatch) -> _BatchOrDrop:
            return DroppedItem(STALE) if self.limit.is_over(batch.shown_ns) else function(batch)

        return check

    def _prepare(self, batch: ViewBatch) -> ViewBatch:
        return replace(batch, tensor=self.plan.model_runner.prepare(batch.pixels()))


class _Inference:
    """Model call, which drops batches that would be stale at its end."""

    def __init__(self, model_runner: ModelRunner, limit: AgeLimit) -> None:
        self._model_runner = model_runner
        self._limit = limit
        self._last_seconds = 0.0

    def __call__(self, batch: ViewBatch) -> ViewBatch | DroppedItem:
        clock = self._limit.clock
        if self._limit.is_over(batch.shown_ns, self._last_seconds):
            return DroppedItem(STALE)
        start_ns = clock.now_ns()
        outputs = split_outputs(self._model_runner.run(_tensor_of(batch)), len(batch.views))
        self._last_seconds = (clock.now_ns() - start_ns) / 1e9
        return replace(batch, tensor=None, outputs=outputs)


def _tensor_of(batch: ViewBatch) -> torch.Tensor:
    assert batch.tensor is not None
    return batch.tensor


@dataclass(eq=False)
class SourceProgress:
    """Progress of one source."""

    arrived: int = 0
    has_frames: bool = False
    is_over: bool = False
    error: HeadraceError | None = None
    failed_ns: int = 0
    waiter: Waiter | None = None
    size: tuple[int, int] | None = None
    """(height, width) of the latest frame."""
    event_counts: Counter[EventKind] = field(default_factory=Counter)
    """Kind → events since the start."""
    recent_ns: deque[int] = field(default_factory=lambda: deque(maxlen=_MAX_ARRIVALS))
    """Arrivals of the latest frames."""


@dataclass(eq=False)
class LivePipeline:
    """One run of a plan: `with LivePipeline(plan) as pipeline: for item in pipeline: ...`.

    Yields the `Item` of each completed batch or clip, in order, once. If a source fails after its
    first frame, the others continue.

    Iterating raises:
        HeadraceError: a source failed before its first frame; all sources failed; no source sent a
            frame in time; the model or another stage failed.
        StageError: frames are missing without a cause (a bug in headrace).
    """

    plan: LivePlan
    clock: Clock = SYSTEM_CLOCK
    marks: Tracer = NO_OP_TRACER
    """Tracer of frames, batches and clips."""
    drops: DropLog = field(default_factory=DropLog)
    """Valid after the run."""
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=_MAX_EVENTS))
    """Latest events of the sources and of overload, in order."""
    on_event: Callable[[Event], None] = field(default=lambda event: None)
    """Called with every event, including overload and failures, in any thread."""

    def __post_init__(self) -> None:
        plan = self.plan
        self.progress = [SourceProgress() for _ in plan.sources]
        self._withheld = 0
        self._work_seconds: deque[float] = deque(maxlen=_RECENT_BATCHES)
        self._delivered = 0
        self._in_flight = (
            None if plan.overload.keeps_all else CapacityLimiter(MAX_IN_FLIGHT, clock=self.clock)
        )
        self._deadline: Waiter | None = None
        self._is_past_deadline = False
        self._overload = OverloadDetector()
        limit = AgeLimit(seconds=plan.overload.max_staleness_seconds, clock=self.clock)
        # An overflow must not drop frames of clips: a missing frame would break a clip.
        drops_frames = not plan.overload.keeps_all and plan.clips is None
        self.run: Run = Pipeline(
            source=MergedSource(feeds=self._feeds(), on_error="end"),
            stages=StageFactory(plan=plan, limit=limit, in_flight=self._in_flight).stages(),
            capacity=plan.overload.queue,
            source_capacity=plan.overload.queue * len(plan.sources),
            source_name=SOURCE,
            overflow="drop_oldest" if drops_frames else "wait",
            lanes=len(plan.sources) if drops_frames else 1,
        ).run(clock=self.clock, tracer=self.marks)
        """The running pipeline, with its statistics."""

    def __enter__(self) -> "LivePipeline":
        return self

    def __exit__(self, *_: object) -> None:
        self.run.close()

    def __iter__(self) -> Iterator[Item[ViewBatch]]:
        for item in self.run:
            if self._in_flight is not None and (not item.is_dropped or len(item.spans) > 2):
                self._release(self._in_flight, item)
            if isinstance(item.value, DroppedItem):
                self._note_drop(item, item.value)
            else:
                self._delivered += item.parts
                yield item
            words = self._overload.end(self.clock.now_ns())
            self._report(None, "recovered", words, self._overload.frames)
        self._check_end()

    def conserved(self) -> FlowStatistics:
        """Return the frame counts of a completed run.

        Raises:
            StageError: arrived = delivered + dropped + in flight does not hold, by the counts of
                this class and of the pipeline.
        """
        counts = self.run.flow()
        arrived = sum(source.arrived for source in self.progress)
        accounted = counts.delivered + sum(counts.dropped.values()) + counts.in_flight
        if not arrived == counts.arrived == accounted or self._delivered > counts.delivered:
            raise StageError(
                f"{arrived} frames arrived, the pipeline took {counts.arrived} and accounts for "
                f"{accounted}; this is a bug in headrace: please report it with the session",
                stage=SOURCE,
            )
        return counts

    def _feeds(self) -> list[WaitableSource[LiveFrame | DroppedItem]]:
        feeds: list[WaitableSource[Any]] = [
            WaitableSource(read=partial(self._read, number)) for number in range(len(self.progress))
        ]
        if self.plan.max_seconds is not None:
            feeds.append(WaitableSource(read=partial(self._stop_after, self.plan.max_seconds)))
        return feeds

    def _read(self, number: int, waiter: Waiter) -> Iterator[LiveFrame | DroppedItem]:
        progress = self.progress[number]
        progress.waiter = waiter
        if self._is_past_deadline:  # the deadline passed before there was a waiter to wake
            waiter.wake()
        stride = self.plan.stride
        try:
            for value in self.plan.sources[number].frames(number, waiter, self._note):
                if self._is_past_deadline:
                    return
                progress.arrived += 1
                if isinstance(value, LiveFrame):
                    progress.has_frames = True
                    progress.size = value.pixels.shape[0], value.pixels.shape[1]
                    progress.recent_ns.append(self.clock.now_ns())
                is_skipped = isinstance(value, LiveFrame) and value.number % stride
                yield DroppedItem(STRIDE) if is_skipped else value
        except (Cancelled, GeneratorExit):
            raise
        except BaseException:
            progress.arrived += 1  # the pipeline counts the failure as a frame
            raise
        finally:
            progress.is_over = True
            if self._deadline is not None and all(source.is_over for source in self.progress):
                self._deadline.wake()

    def _note(self, event: Event) -> None:
        if event.source is not None:
            self.progress[event.source].event_counts[event.kind] += 1
        self.events.append(event)
        self.on_event(event)

    def _report(
        self, source: int | None, kind: EventKind, words: str | None, frames: int = 0
    ) -> None:
        if words is not None:
            at_ns = self.clock.now_ns()
            self._note(Event(at_ns=at_ns, source=source, kind=kind, words=words, frames=frames))

    def _stop_after(self, seconds: float, waiter: Waiter) -> Iterator[Any]:
        self._deadline = waiter
        if all(source.is_over for source in self.progress):
            return
        waiter.pause(seconds)
        self._is_past_deadline = True
        for source in self.progress:
            if source.waiter is not None:
                source.waiter.wake()
        yield from ()

    def _release(self, in_flight: CapacityLimiter, item: Item[Any]) -> None:
        if not item.is_dropped:
            self._work_seconds.append(sum(span.work_ns for span in item.spans[1:]) / 1e9)
        work = median(self._work_seconds) if self._work_seconds else 0.0
        withheld = MAX_IN_FLIGHT - self.plan.overload.in_flight(work)
        in_flight.release(1 + self._withheld - withheld)
        self._withheld = withheld

    def _note_drop(self, item: Item[Any], dropped: DroppedItem) -> None:
        if dropped.cause != SOURCE_FAILED or item.source is None or dropped.error is None:
            stage = item.spans[-1].stage
            if dropped.cause in _OVERLOAD_CAUSES:
                where, now_ns = f"{dropped.cause} at {stage}", self.clock.now_ns()
                words = self._overload.drop(now_ns, where, item.parts)
                self._report(None, "overloaded", words, self._overload.frames)
            # A source reports its drops as events itself.
            if stage != SOURCE or dropped.cause == OVERFLOW:
                self.drops.add(
                    self.clock.now_ns(),
                    source=item.source,
                    stage=stage,
                    cause=dropped.cause,
                    frames=item.parts,
                )
            return
        progress = self.progress[item.source]
        progress.error, progress.failed_ns = dropped.error, self.clock.now_ns()
        if not progress.has_frames:
            raise dropped.error
        self._report(item.source, "failed", first_line(dropped.error))

    def _check_end(self) -> None:
        errors = [source.error for source in self.progress]
        if all(errors) and errors[-1] is not None:
            raise errors[-1]
        if self._is_past_deadline and not any(source.arrived for source in self.progress):
            names = ", ".join(source.name for source in self.plan.sources)
            raise OpenError(
                f"{names} sent no frame within {self.plan.max_seconds:g} s; check that it sends "
                "frames, or allow more time (--max-seconds)",
                source=names,
            )
