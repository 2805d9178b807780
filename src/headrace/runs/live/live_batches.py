"""Batches of a live run: model input and output, and the results for the sinks."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.errors import ConfigError, HeadraceError, StageError, first_line, in_words
from headrace.live.live_source import Event, EventKind, LiveFrame
from headrace.models.compute import Device
from headrace.models.model import Model
from headrace.models.outputs import describe_value
from headrace.models.results import Boxes, Labels
from headrace.preprocess.levels import build_preprocess
from headrace.preprocess.spec import PrepLevel
from headrace.runs.output_folder import open_sinks
from headrace.runtime.clock import Clock, WallTime, wall_time
from headrace.runtime.fan_out import FanOut, SinkSpec
from headrace.runtime.queue import Overflow
from headrace.runtime.stage_executor import OVERFLOW
from headrace.runtime.tracing import NO_OP_TRACER, Tracer
from headrace.sinks.batch_results import Arrival, BatchResults, ResultSink
from headrace.video.frames import FrameBatch

View = tuple[LiveFrame, ...]
"""Model input with one output: a frame, or the frames of a clip in order."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ViewBatch:
    """Views of one size that share a model call, with the results of the stages so far."""

    views: tuple[View, ...]
    is_clips: bool
    tensor: torch.Tensor | None = None
    """Preprocessed views; None: before preprocessing, or after the model."""
    outputs: tuple[Any, ...] = ()
    """One model output per view; empty before the model."""

    @property
    def newest_ns(self) -> int:
        """Arrival of the newest frame; latency counts from this time."""
        return max(view[-1].arrived_ns for view in self.views)

    @property
    def shown_ns(self) -> int:
        """Oldest arrival among the displayed frames: the newest frame of each clip."""
        return min(view[-1].arrived_ns for view in self.views)

    @property
    def oldest_ns(self) -> int:
        """Arrival of the oldest frame of any view."""
        return min(view[0].arrived_ns for view in self.views)

    def pixels(self) -> NDArray[np.uint8]:
        """Return frames uint8 [N, H, W, 3] or clips uint8 [N, T, H, W, 3], RGB; a copy."""
        if not self.is_clips:
            return np.stack([view[0].pixels for view in self.views])
        return np.stack([np.stack([frame.pixels for frame in view]) for view in self.views])


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelRunner:
    """Preprocessing and model call of a batch."""

    prepare: Callable[[NDArray[np.uint8]], torch.Tensor]
    """Frames uint8 [N, H, W, 3], or clips [N, T, H, W, 3] -> model input, on the CPU."""
    run: Callable[[torch.Tensor], Any]
    """Model input on `device` -> output; called in one thread."""
    device: Device = "cpu"

    @classmethod
    def of_model(cls, model: Model[Any], prep_level: PrepLevel = "medium") -> "ModelRunner":
        """Return the runner of a prepared model, with its preprocessing."""
        prepare = build_preprocess(prep_level, model.input)
        return cls(prepare=prepare, run=model.run, device=model.compute.device)

    @classmethod
    def of_callable(
        cls, run: Callable[[torch.Tensor], Any], device: Device = "cpu"
    ) -> "ModelRunner":
        """Return the runner of a callable that takes raw frames.

        Args:
            run: Frames uint8 [N, 3, H, W], or clips uint8 [N, T, 3, H, W], RGB in [0, 255] -> one
                entry for each. Called in `torch.inference_mode`.
            device: Device of the argument.
        """

        def prepare(pixels: NDArray[np.uint8]) -> torch.Tensor:
            return torch.from_numpy(pixels).movedim(-1, -3)

        def run_and_wait(batch: torch.Tensor) -> Any:
            try:
                with torch.inference_mode():
                    output = run(batch)
            except RuntimeError as error:
                raise StageError(
                    f"the model failed: {in_words(error)}; its batch was uint8 "
                    f"{list(batch.shape)}, at the size of the video: a callable converts and "
                    "resizes it itself",
                    stage="model",
                ) from error
            if device != "cpu":
                # GPU calls return early, but latency includes the work.
                torch.cuda.current_stream().synchronize()
            return output

        return cls(prepare=prepare, run=run_and_wait, device=device)


def split_outputs(output: Any, count: int) -> tuple[Any, ...]:
    """Split the output of a batch into the outputs of its `count` frames or clips.

    Tensors, arrays, lists and tuples are split along the first dimension, dicts and results of
    headrace by value. With `count` 1, any other object is the output.

    Raises:
        ConfigError: the number of entries is not `count`.
    """
    if isinstance(output, Labels | Boxes):
        columns = {field.name: getattr(output, field.name) for field in fields(output)}
        return tuple(
            replace(output, **{name: column[k : k + 1] for name, column in columns.items()})
            for k in range(count)
        )
    if isinstance(output, Mapping):
        parts = {name: split_outputs(value, count) for name, value in output.items()}
        return tuple({name: part[k] for name, part in parts.items()} for k in range(count))
    if _has_entries(output) and len(output) == count:
        return tuple(output[k] for k in range(count))
    if count == 1:
        return (output,)
    raise ConfigError(
        f"the model got {count} frames and returned {describe_value(output)}; return one entry for "
        f"each frame, such as a tensor [{count}, ...], or give batch_size=1"
    )


def _has_entries(output: Any) -> bool:
    if isinstance(output, torch.Tensor | np.ndarray):
        return output.ndim > 0
    return isinstance(output, Sequence) and not isinstance(output, str) and not is_dataclass(output)


_LOGGER: Final = logging.getLogger(__name__)
"""Receives tracebacks of failed sinks, for --debug."""
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
        on_event: Callable[[Event], None] = lambda event: None,
    ) -> None:
        """Prepare the queues; threads start with `running`.

        Args:
            sinks: Sinks of the run.
            keeps_all: Whether a slow sink blocks the run; else its queue drops the oldest results.
            clock: Clock of the run.
            marks: Tracer of the work of the sinks.
            max_frames: Max frames per step.
            on_event: Called with each event.
        """
        self.sinks = tuple(sinks)
        self.events: list[Event] = []
        """One event per failure, and one per sink that loses results because it is too slow."""
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
        self._on_event = on_event

    def check(self) -> None:
        """Record the failures since the last check, and the first loss of each sink."""
        for error in self.fan.failures().values():
            self._record(error)
        for sink in self.fan.statistics():
            if sink.dropped.get(OVERFLOW):
                self._note(
                    "dropped",
                    f"{OVERFLOW} at {sink.name}: its queue is full, so results are lost, "
                    "the oldest first",
                )

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
        if self._note("failed", first_line(error)):
            _LOGGER.debug("a sink failed", exc_info=error)

    def _note(self, kind: EventKind, words: str) -> bool:
        """Record and report an event; return whether it is new."""
        is_new = words not in {event.words for event in self.events}
        if is_new:
            event = Event(at_ns=self._clock.now_ns(), source=None, kind=kind, words=words)
            self.events.append(event)
            self._on_event(event)
        return is_new


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
