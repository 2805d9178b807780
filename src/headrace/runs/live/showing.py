"""Results of a live run on their way to its sinks."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import numpy as np

from headrace.errors import HeadraceError, first_line
from headrace.live.source import LiveFrame
from headrace.runs.live.live_batches import ModelOutputs
from headrace.runtime.clock import Clock, WallTime, wall_time
from headrace.runtime.fan_out import FanOut, SinkSpec
from headrace.runtime.queue import Overflow
from headrace.runtime.tracing import NO_OP_TRACER, Tracer
from headrace.sinks.batch_results import Arrival, ClassifiedBatch, DetectedBatch, SinkOf, seen_in
from headrace.sinks.own_sink import OwnSink, open_own
from headrace.video.frames import FrameBatch

Results = tuple[ClassifiedBatch | DetectedBatch, ...]
"""What waits for the sinks of one step: its frames, or the newest frame of each clip, as the others
of a clip would be kept for nothing."""
_WAITING: Final = 64
"""Frames that may wait for a sink: two seconds of them, while a disk takes its time."""
_NAMES: Final = {
    "AnnotatedParts": "annotated video",
    "BoxLines": "boxes",
    "BoxTable": "boxes as a table",
    "CocoFile": "boxes for COCO",
    "PredictionLines": "predictions",
    "PredictionTable": "predictions",
    "WebView": "web page",
    "WindowView": "window",
}
"""What readers call the sinks, by their types."""
_DRAIN_SECONDS: Final = 10.0


def fan_out(
    sinks: Sequence[SinkOf[Any]],
    *,
    keeps_all: bool,
    clock: Clock,
    marks: Tracer = NO_OP_TRACER,
    most_frames: int = 1,
) -> FanOut[Results]:
    """Return what hands each result to each sink, behind a queue of its own.

    Args:
        sinks: Where results go.
        most_frames: Of one step.
        keeps_all: Whether a sink that is slow holds everybody back, so that it gets all; else it
            goes without the oldest ones.
        clock: What measures.
        marks: Hear of each result that a sink takes.
    """
    overflow: Overflow = "wait" if keeps_all else "drop_oldest"
    return FanOut(
        [
            SinkSpec(
                name=name,
                function=partial(_write, sink),
                capacity=max(1, _WAITING // most_frames),
                overflow=overflow,
            )
            for name, sink in zip(sink_names(sinks), sinks, strict=True)
        ],
        drain_seconds=None if keeps_all else _DRAIN_SECONDS,
        clock=clock,
        tracer=marks,
    )


class SinkMonitor:
    """The sinks of a run until all are closed: each that fails ends alone, and is noted."""

    def __init__(
        self, sinks: Sequence[SinkOf[Any]], clock: Clock, on_failure: Callable[[int, str], None]
    ) -> None:
        """All is well yet; `on_failure` hears of each failure at once: when, and what it said."""
        self.sinks = tuple(sinks)
        self.failures: list[tuple[int, str]] = []
        """When each one failed, and what it said."""
        self._clock = clock
        self._on_failure = on_failure
        self._noted: set[str] = set()

    def look(self, fan: FanOut[Results]) -> None:
        """Note those that failed since the last look."""
        for name, error in fan.failures().items():
            if name not in self._noted:
                self._noted.add(name)
                self._note(error)

    @contextmanager
    def noting(self, fan: FanOut[Results]) -> Iterator[None]:
        """Enter the fan; what its sinks raise at the end is noted, and not raised."""
        try:
            with fan:
                yield
        except HeadraceError as error:
            if error not in fan.failures().values():
                raise
        finally:
            self.look(fan)

    def __enter__(self) -> "SinkMonitor":
        try:
            open_own(self.sinks)
        except HeadraceError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for sink in self.sinks:
            try:
                sink.close()
            except HeadraceError as failure:
                self._note(failure)

    def _note(self, error: HeadraceError) -> None:
        words = first_line(error)
        if words not in {said for _, said in self.failures}:
            now_ns = self._clock.now_ns()
            self.failures.append((now_ns, words))
            self._on_failure(now_ns, words)


def sink_names(sinks: Sequence[SinkOf[Any]]) -> list[str]:
    """Return what messages and records call them; different for each."""
    kinds = [type(sink).__name__ for sink in sinks]
    names = [
        sink.name if isinstance(sink, OwnSink) else _NAMES.get(kind, kind)
        for kind, sink in zip(kinds, sinks, strict=True)
    ]
    return [
        name if names.count(name) == 1 else f"{name}-{place}" for place, name in enumerate(names)
    ]


def results_of(answered: ModelOutputs, wall: WallTime | None = None) -> Results:
    """Return what sinks take: each frame, or the newest frame of each clip, with its
    labels or boxes.

    Args:
        answered: The frames or clips of one step.
        wall: Gives the times of arrival; None: frames of files at full speed, which have none.
    """
    return tuple(_seen_of(answered, wall))


def arrival_of(frame: LiveFrame, wall: WallTime) -> Arrival:
    """Return when a frame came."""
    captured = frame.captured_seconds
    return Arrival(
        segment=frame.segment,
        arrival_time=wall.at(frame.arrived_ns),
        capture_time=None if captured is None else wall_time(captured),
    )


def _seen_of(
    answered: ModelOutputs, wall: WallTime | None
) -> Iterator[ClassifiedBatch | DetectedBatch]:
    for view, output in zip(answered.gathered.views, answered.outputs, strict=True):
        frame = view[-1]
        batch = FrameBatch(
            frames=frame.pixels[None],
            video=frame.source,
            index=np.array([frame.number]),
            pts=np.array([frame.pts]),
            time_base=frame.time_base,
        )
        arrival = None if wall is None else arrival_of(frame, wall)
        yield seen_in(batch, output, arrival)


def _write(sink: SinkOf[Any], results: Results) -> None:
    for seen in results:
        sink.write(seen)
