"""Sink stage of a live run: one queue per sink; failures of sinks."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Final

import numpy as np

from headrace.errors import HeadraceError, first_line
from headrace.runs.live.live_batches import ViewBatch
from headrace.runs.output_folder import open_sinks
from headrace.runtime.clock import Clock, WallTime, wall_time
from headrace.runtime.fan_out import FanOut, SinkSpec
from headrace.runtime.queue import Overflow
from headrace.runtime.tracing import NO_OP_TRACER, Tracer
from headrace.sinks.batch_results import Arrival, BatchResults, ResultSink
from headrace.video.frames import FrameBatch

Results = tuple[BatchResults[Any], ...]
"""Results of one step: its frames, or the newest frame of each clip."""
_MAX_WAITING: Final = 64
"""Max frames in the queue of a sink: two seconds of video for a slow disk."""
_DRAIN_SECONDS: Final = 10.0
"""Max seconds for the sinks to write the remaining results at the end."""


class LiveSinks:
    """Sinks of a live run, with one queue each; a failed sink does not end the run.

    with sinks.open(), sinks.running():
        sinks.fan.put(results)
        sinks.check()
    """

    def __init__(
        self,
        sinks: Sequence[ResultSink],
        *,
        keeps_all: bool,
        clock: Clock,
        marks: Tracer = NO_OP_TRACER,
        max_frames: int = 1,
        on_failure: Callable[[int, str], None] = lambda at_ns, words: None,
    ) -> None:
        """Prepare the queues; threads start with `running`.

        Args:
            sinks: Sinks of the run.
            keeps_all: Whether a slow sink blocks the run; else its queue drops the oldest results.
            clock: Clock of the run.
            marks: Tracer of the work of the sinks.
            max_frames: Max frames per step.
            on_failure: Receives the time and text of each failure.
        """
        self.sinks = tuple(sinks)
        self.failures: list[tuple[int, str]] = []
        """Time in ns and text of each failure."""
        overflow: Overflow = "wait" if keeps_all else "drop_oldest"
        self.fan: FanOut[Results] = FanOut(
            [
                SinkSpec(
                    name=name,
                    function=partial(_write, sink),
                    capacity=max(1, _MAX_WAITING // max_frames),
                    overflow=overflow,
                )
                for name, sink in zip(sink_names(sinks), sinks, strict=True)
            ],
            drain_seconds=None if keeps_all else _DRAIN_SECONDS,
            clock=clock,
            tracer=marks,
        )
        """Queues of the sinks: `put` the results of each step."""
        self._clock = clock
        self._on_failure = on_failure

    def check(self) -> None:
        """Record the failures since the last check."""
        for error in self.fan.failures().values():
            self._record(error)

    def open(self) -> AbstractContextManager[None]:
        """Return the context in which the sinks are open."""
        return open_sinks(self.sinks, self._record)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the threads of the sinks in the block."""
        try:
            with self.fan:
                yield
        except HeadraceError as error:
            if error not in self.fan.failures().values():
                raise
        finally:
            self.check()

    def _record(self, error: HeadraceError) -> None:
        words = first_line(error)
        if words not in {text for _, text in self.failures}:
            now_ns = self._clock.now_ns()
            self.failures.append((now_ns, words))
            self._on_failure(now_ns, words)


def sink_names(sinks: Sequence[ResultSink]) -> list[str]:
    """Return unique names of the sinks, for messages and records."""
    names = [getattr(sink, "name", type(sink).__name__) for sink in sinks]
    return [name if names.count(name) == 1 else f"{name}-{k}" for k, name in enumerate(names)]


def sink_batches(batch: ViewBatch, wall: WallTime | None = None) -> Results:
    """Return each frame of a step (of a clip, the newest) with its labels or boxes.

    Args:
        batch: Views of one step, with their model outputs.
        wall: Clock of arrival times; None: files at full speed, without arrivals.
    """
    results = []
    for view, output in zip(batch.views, batch.outputs, strict=True):
        frame = view[-1]
        frames = FrameBatch(
            frames=frame.pixels[None],
            video=frame.source,
            index=np.array([frame.number]),
            pts=np.array([frame.pts]),
            time_base=frame.time_base,
        )
        arrival, captured = None, frame.captured_seconds
        if wall is not None:
            arrival = Arrival(
                segment=frame.segment,
                arrival_time=wall.at(frame.arrived_ns),
                capture_time=None if captured is None else wall_time(captured),
            )
        results.append(BatchResults(batch=frames, output=output, arrival=arrival))
    return tuple(results)


def _write(sink: ResultSink, results: Results) -> None:
    for batch in results:
        sink.write(batch)
