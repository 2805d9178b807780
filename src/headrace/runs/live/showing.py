"""Results of a live run on their way to its sinks."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

import numpy as np

from headrace.errors import HeadraceError, first_line
from headrace.runs.live.values import Answered
from headrace.runtime.clock import Clock
from headrace.runtime.fan_out import FanOut, Outlet
from headrace.runtime.marks import NO_MARKS, Marks
from headrace.runtime.queue import Overflow
from headrace.sinks.seen import Seen, Sink
from headrace.video.frames import FrameBatch

Results = tuple[Seen, ...]
"""What waits for the sinks of one step: its frames, or the newest frame of each clip, as the others
of a clip would be kept for nothing."""
_WAITING: Final = 64
"""Frames that may wait for a sink: two seconds of them, while a disk takes its time."""
_NAMES: Final = {
    "AnnotatedParts": "annotated video",
    "PredictionLines": "predictions",
    "PredictionTable": "predictions",
    "WebView": "web page",
    "WindowView": "window",
}
"""What readers call the sinks, by their types."""
_DRAIN_SECONDS: Final = 10.0


def fan_out(
    sinks: Sequence[Sink],
    *,
    keeps_all: bool,
    clock: Clock,
    marks: Marks = NO_MARKS,
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
            Outlet(
                name=name,
                function=partial(_write, sink),
                capacity=max(1, _WAITING // most_frames),
                overflow=overflow,
            )
            for name, sink in zip(sink_names(sinks), sinks, strict=True)
        ],
        drain_seconds=None if keeps_all else _DRAIN_SECONDS,
        clock=clock,
        marks=marks,
    )


class SinkEnds:
    """The sinks of a run until all are closed: each that fails ends alone, and is noted."""

    def __init__(
        self, sinks: Sequence[Sink], clock: Clock, on_notice: Callable[[str], None]
    ) -> None:
        """All is well yet; `on_notice` hears of each failure at once."""
        self.sinks = tuple(sinks)
        self.failures: list[tuple[int, str]] = []
        """When each one failed, and what it said."""
        self._clock = clock
        self._on_notice = on_notice
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

    def __enter__(self) -> "SinkEnds":
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
            self.failures.append((self._clock.now_ns(), words))
            self._on_notice(words)


def sink_names(sinks: Sequence[Sink]) -> list[str]:
    """Return what messages and records call them; different for each."""
    names = [_NAMES.get(type(sink).__name__, type(sink).__name__) for sink in sinks]
    return [
        name if names.count(name) == 1 else f"{name}-{place}" for place, name in enumerate(names)
    ]


def results_of(answered: Answered) -> Results:
    """Return what sinks take: each frame, or the newest frame of each clip, with its labels."""
    return tuple(_seen_of(answered))


def _seen_of(answered: Answered) -> Iterator[Seen]:
    for view, labels in zip(answered.gathered.views, answered.outputs, strict=True):
        frame = view[-1]
        yield Seen(
            batch=FrameBatch(
                frames=frame.pixels[None],
                video=frame.source,
                index=np.array([frame.number]),
                pts=np.array([frame.pts]),
                time_base=frame.time_base,
            ),
            labels=labels,
        )


def _write(sink: Sink, results: Results) -> None:
    for seen in results:
        sink.write(seen)
