"""One live run: sources -> batches or clips -> model -> sinks, recorded as a session."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from headrace.decode.decoder_config import ON_CPU, DecoderConfig
from headrace.errors import ConfigError, first_line
from headrace.live.clip_windows import clip_shape
from headrace.live.source import LiveSource
from headrace.live.source_options import SourceOptions
from headrace.models.model import Model
from headrace.profiling.input_records import EventRecord, SourceRecord, lost_frame
from headrace.profiling.provenance import Scalar
from headrace.profiling.recorder import Recorder
from headrace.profiling.session import Kind
from headrace.profiling.stage_records import ItemCounts, QueueRecord, StageRecord
from headrace.profiling.steps import Step
from headrace.runs.live.flow import LiveFlow, LivePlan
from headrace.runs.live.live_batches import Gathered, ModelOutputs, ModelRunner
from headrace.runs.live.live_sources import FileSource, base_of, chosen_overload, open_sources
from headrace.runs.live.showing import Results, SinkMonitor, fan_out, results_of
from headrace.runs.live.status_board import Notice, Notices, StatusBoard
from headrace.runs.model_setup import (
    StartWatch,
    check_devices,
    computing_place,
    notes_on,
    ready_model,
    setup_of,
)
from headrace.runs.outputs import claim
from headrace.runs.run_options import RunOptions
from headrace.runs.runner import AnyRunner, line_records, timed_step
from headrace.runs.stages import Transfer
from headrace.runs.task import Task, with_task
from headrace.runs.tracers import RunTracers, prepare_marks
from headrace.runtime.clock import SYSTEM_CLOCK, Clock, WallTime
from headrace.runtime.fan_out import FanOut
from headrace.runtime.item import Item
from headrace.sinks.batch_results import SinkOf

_STEPS_KEPT: Final = 100_000
"""The last ones, about an hour at 30 a second in 15 MB: a run without end fits into memory."""


@dataclass(frozen=True, kw_only=True)
class LiveRunner(AnyRunner["LiveFeed"]):
    """One live run, ready to start: its sources are known, the model is loaded and warm."""

    options: RunOptions
    sources: tuple[LiveSource, ...]
    model: Model[Any]
    sinks: tuple[SinkOf[Any], ...] = ()
    """Where results go besides the files of the options; closed when the run ends. A sink that
    fails ends alone; the timeline says so."""
    board: StatusBoard | None = None
    """Told of the run as it goes, for those who watch it."""
    on_notice: Callable[[Notice], None] = field(default=lambda notice: None)
    """Hears at once of what happens to sources and sinks, and of overload; in any thread."""

    @classmethod
    def prepare(
        cls,
        options: RunOptions,
        *,
        command: Sequence[str] = (),
        imports_seconds: float | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> "LiveRunner":
        """Check everything that can be checked before the first frame; no source is opened.

        Args:
            options: What to run.
            command: The command line, for the record.
            imports_seconds: How long the program took to get here, for the record.
            clock: What measures.

        Raises:
            ConfigError: an option, a source or a model that is not possible, or a folder that
                cannot be written.
            BackendError: the device is missing, or the model cannot run there.
        """
        watch = StartWatch(clock, imports_seconds)
        with computing_place(options.compute):
            return cls._prepare(with_task(options), tuple(command), watch)

    @classmethod
    def _prepare(
        cls, options: RunOptions, command: tuple[str, ...], watch: StartWatch
    ) -> "LiveRunner":
        task, compute, read = Task(options), options.compute, options.input
        _check(options)
        check_devices(compute)
        task.check()
        prepare_marks(options.marks, watch)
        sources = open_sources(
            read.sources,
            options.flow.pace,
            SourceOptions(wait_for_source=options.flow.wait_for_source),
            on_error=read.on_error,
            rate=read.rate,
        )
        chosen_overload(options.flow, is_live=base_of(sources) != "full_speed")
        is_video, clips = task.name == "video", options.clips
        if is_video and read.stride != 1:
            raise ConfigError("--stride is for single frames; give --clip-stride for clips")
        if not is_video:
            clip_shape(None, stride=clips.clip_stride, hop=clips.clip_hop)
        claim(options.output.out, *(Path(s.name) for s in sources if isinstance(s, FileSource)))
        size = 1 if is_video else compute.batch_size
        return cls(
            options=options,
            sources=sources,
            model=ready_model(task.load, compute, batch_size=size, watch=watch),
            command=command,
            startup=tuple(watch.parts),
            clock=watch.clock,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """What the sources are called, without credentials."""
        return tuple(source.name for source in self.sources)

    def new_board(self) -> StatusBoard:
        """Return a board that knows what runs here; give it as `board`."""
        title = f"{self.model.name} on {', '.join(self.names)}"
        return StatusBoard(title, base_of(self.sources), self.clock)

    def plan(self) -> LivePlan:
        """Return what the run consists of, but for its sinks."""
        compute, clips, flow = self.options.compute, self.options.clips, self.options.flow
        num_frames = self.model.input.num_frames
        return LivePlan(
            sources=self.sources,
            engine=ModelRunner.of_model(self.model, compute.prep_level),
            overload=chosen_overload(flow, is_live=base_of(self.sources) != "full_speed"),
            batch_size=compute.batch_size,
            clips=clip_shape(num_frames, stride=clips.clip_stride, hop=clips.clip_hop),
            stride=self.options.input.stride,
            max_seconds=flow.max_seconds,
            carrier=None if compute.device == "cpu" else Transfer(compute.device),
        )

    @property
    def _kind(self) -> Kind:
        return "run" if base_of(self.sources) == "full_speed" else "live"

    @property
    def _most_steps(self) -> int:
        return _STEPS_KEPT

    def configuration(self) -> dict[str, Scalar]:
        """Return every option in force, with the names of the sources."""
        return self.options.configuration(self.names)

    def _feed(self, recorder: Recorder) -> "LiveFeed":
        return LiveFeed(self, recorder)


class LiveFeed:
    """Sources that are read as they come: a `Feed`."""

    def __init__(self, runner: LiveRunner, recorder: Recorder) -> None:
        """Open the sinks.

        Raises:
            ConfigError: one cannot be written.
        """
        options, clock = runner.options, runner.clock
        self._runner, self._recorder = runner, recorder
        self._base = base_of(runner.sources)
        wall, is_live = WallTime.of(clock), self._base != "full_speed"
        self._started = wall.at(recorder.start_ns) if is_live else None
        made, out = recorder.provenance, options.output.out
        self._tracers = RunTracers(options.marks, out, made, clock)
        notices = Notices(sources=runner.sources, wall=wall, hear=runner.on_notice)
        own = Task(options).sinks(runner.model, runner.names, is_read=True, is_live=is_live)
        self._sinks = SinkMonitor((*own, *runner.sinks), clock, notices.sink_failed)
        plan = runner.plan()
        self._fan: FanOut[Results] = fan_out(
            self._sinks.sinks,
            keeps_all=plan.overload.keeps_all,
            clock=clock,
            marks=self._tracers.marks,
            most_frames=plan.batch_size if plan.clips is None else 1,
        )
        show = partial(_show, self._fan, wall if plan.is_live else None)
        marks, on_event = self._tracers.marks, notices.event
        self._flow = LiveFlow(replace(plan, show=show), clock, marks, on_event=on_event)
        self._is_over = False

    @contextmanager
    def open(self) -> Iterator[None]:
        """See `Feed.open`."""
        with self._sinks, self._tracers, self._sinks.noting(self._fan), self._flow:
            yield

    def steps(self) -> Iterator[Step]:
        """See `Feed.steps`."""
        runner, flow, board = self._runner, self._flow, self._runner.board
        if board is not None:
            board.begin(flow, self._fan)
        for number, item in enumerate(flow):
            step = step_of(
                item, number, self._recorder.start_ns, is_live=flow.plan.is_live, clock=runner.clock
            )
            self._tracers.add(item, step, flow.run)
            if board is not None:
                board.add(step)
            yield step
            self._sinks.look(self._fan)
            if number + 1 == runner.options.input.max_steps:
                break

    def finish(self) -> None:
        """See `Feed.finish`."""
        self._is_over = True
        if self._runner.board is not None:
            self._runner.board.end()

    def parts(self) -> dict[str, Any]:
        """See `Feed.parts`."""
        runner, flow, recorder = self._runner, self._flow, self._recorder
        stages, queues = stage_records(flow, self._fan)
        counts = flow.conserved() if self._is_over else flow.run.flow()
        events = (
            *_events(flow, self._sinks.failures, recorder.start_ns),
            *self._tracers.events(),
        )
        return {
            "setup": setup_of(
                runner.options.compute,
                runner.model,
                recorder.provenance,
                stride=runner.options.input.stride,
                draws_video=runner.options.output.video,
            ),
            "pace": self._base,
            "started": self._started,
            "stages": stages,
            "queues": queues,
            "items": ItemCounts.of(counts),
            "sources": tuple(
                SourceRecord(
                    name=source.name,
                    arrived=reading.arrived,
                    error=None if reading.error is None else first_line(reading.error),
                )
                for source, reading in zip(runner.sources, flow.readings, strict=True)
            ),
            "events": tuple(sorted(events, key=lambda event: event.at_seconds)),
            # Of files; streams tell of theirs as events.
            "lost": tuple(
                lost_frame(loss, number)
                for number, source in enumerate(runner.sources)
                if isinstance(source, FileSource)
                for loss in source.losses
            ),
            "notes": notes_on(runner.options.compute),
            "outputs": (
                *(name for sink in self._sinks.sinks for name in sink.outputs),
                *self._tracers.outputs,
            ),
        }


def step_of(
    item: Item[ModelOutputs], number: int, start_ns: int, *, is_live: bool, clock: Clock
) -> Step:
    """Return step `number` of a run that began at `start_ns`; it has just come out."""
    gathered, captured = item.value.gathered, item.value.gathered.views[-1][-1].captured_seconds
    since_ms = (clock.now_ns() - item.spans[-1].end_ns) / 1e6
    known: dict[str, Any] = {
        "input": item.source or 0,
        "first_index": gathered.views[0][0].number,
        "frames": item.parts,
    }
    if is_live:
        known["segment"] = _segment_of(gathered)
        known["arrived_ms"] = max(0.0, (gathered.newest_ns - start_ns) / 1e6)
        if gathered.oldest_ns != gathered.newest_ns:
            known["oldest_arrived_ms"] = max(0.0, (gathered.oldest_ns - start_ns) / 1e6)
    if captured is not None:
        known["capture_latency_ms"] = (clock.wall_seconds() - captured) * 1e3 - since_ms
    return timed_step(item.spans, number, start_ns, **known)


def stage_records(
    flow: LiveFlow, fan: FanOut[Results] | None
) -> tuple[tuple[StageRecord, ...], tuple[QueueRecord, ...]]:
    """Return what every stage, queue and sink did, in the order the frames take."""
    carrier = flow.plan.carrier
    stages, queues = line_records(flow.run, {"transfer": carrier} if carrier else {})
    if fan is None:
        return stages, queues
    return (
        (*stages, *(StageRecord.of(sink, "sink") for sink in fan.statistics())),
        (*queues, *(QueueRecord.of(queue, feeds=queue.name) for queue in fan.queues())),
    )


def _show(fan: FanOut[Results], wall: WallTime | None, answered: ModelOutputs) -> None:
    fan.put(results_of(answered, wall))


def _segment_of(gathered: Gathered) -> int | None:
    """Return the segment of the frames; None where they are of several, or of several sources."""
    found = {(frame.source, frame.segment) for view in gathered.views for frame in view}
    return found.pop()[1] if len(found) == 1 else None


def _events(
    flow: LiveFlow, failures: Sequence[tuple[int, str]], start_ns: int
) -> Iterator[EventRecord]:
    """Yield what happened to sources and sinks; `failures` are those of sinks: when, and why."""
    events = list(flow.events)  # a copy: threads of sources append meanwhile
    rows = [(each.at_ns, each.source, each.kind, each.words, each.frames) for each in events]
    rows += [(s.began_ns, s.source, "dropped", s.words, s.frames) for s in flow.drops.spells]
    rows += [
        (reading.failed_ns, number, "failed", first_line(reading.error), 0)
        for number, reading in enumerate(flow.readings)
        if reading.error is not None
    ]
    rows += [(at_ns, None, "failed", words, 0) for at_ns, words in failures]
    for at_ns, source, kind, words, frames in rows:
        at_seconds = max(0.0, (at_ns - start_ns) / 1e9)
        yield EventRecord(
            at_seconds=at_seconds, source=source, kind=kind, words=words, frames=frames
        )


def _check(options: RunOptions) -> None:
    """Raise ConfigError where something is asked for that only files at full speed have."""
    execution = options.compute.execution
    asked = {
        f"--decode {options.input.decode}": DecoderConfig.parse(options.input.decode) != ON_CPU,
        "--batch-size auto": execution.fit_batch,
        "--prep-on-gpu": execution.prep_on_gpu,
        "--split-point": execution.split_point is not None,
    }
    for option, is_asked in asked.items():
        if is_asked:
            raise ConfigError(
                f"{option} is for single frames of files at full speed; leave it out for cameras, "
                "for real time, for clips and for what is watched"
            )
