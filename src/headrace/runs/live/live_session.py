"""Live run: its preparation, and its steps, recorded as a session."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from headrace.decode.decoder_config import ON_CPU, DecoderConfig
from headrace.errors import ConfigError, first_line
from headrace.live.drop_policy import DropPolicy
from headrace.live.live_source import Event, LiveSource, clip_window_of
from headrace.live.open_options import SourceOptions
from headrace.models.model import Model
from headrace.profiling.input_records import EventRecord, SourceRecord, lost_frame
from headrace.profiling.provenance import Scalar, record_of
from headrace.profiling.recorder import Recorder
from headrace.profiling.run_records import ItemCounts, QueueRecord, StageRecord
from headrace.profiling.session import Step
from headrace.runs.live.live_batches import LiveSinks, ModelRunner, Results, ViewBatch, sink_batches
from headrace.runs.live.live_pipeline import LivePipeline, LivePlan
from headrace.runs.live.live_sources import FileSource, drop_policy_of, latency_base, open_sources
from headrace.runs.live.status_board import Notice, StatusBoard, notice_sender
from headrace.runs.model_setup import (
    StartupTimer,
    check_devices,
    check_task,
    compute_resources,
    load_model,
    precision_notes,
    random_weights_notes,
    ready_model,
    task_name,
    with_task,
)
from headrace.runs.output_folder import prepare_folder
from headrace.runs.run_options import RunOptions
from headrace.runs.run_session import BaseRunner, ResultSteps, make_step, pipeline_records
from headrace.runs.run_stages import Transfer
from headrace.runs.tracers import prepare_tracers
from headrace.runtime.clock import SYSTEM_CLOCK, Clock, WallTime
from headrace.runtime.fan_out import FanOut
from headrace.runtime.stage import Item
from headrace.sinks.batch_results import ResultSink


@dataclass(frozen=True, kw_only=True)
class LiveRunner(BaseRunner):
    """Live run, ready to start: sources known, model loaded and warm."""

    options: RunOptions
    sources: tuple[LiveSource, ...]
    model: Model[Any]
    sinks: tuple[ResultSink, ...] = ()
    """Sinks in addition to the options' sinks; closed when the run ends. A failed sink is an event
    and does not end the run."""
    board: StatusBoard | None = None
    """Status of the run, for its page; None: no page."""
    on_notice: Callable[[Notice], None] = field(default=lambda notice: None)
    """Called with every event of sources, sinks and overload, in any thread."""
    _max_steps: ClassVar[int | None] = 100_000
    """About an hour at 30 steps per second, in 15 MB."""

    @classmethod
    def prepare(
        cls,
        options: RunOptions,
        *,
        command: Sequence[str] = (),
        imports_seconds: float | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> "LiveRunner":
        """Load the model and check all options before the first frame. Opens no source.

        Args:
            options: Options of the run.
            command: The command line, for the record.
            imports_seconds: Seconds from the start of the process, for the record.
            clock: Clock of the run.

        Raises:
            ConfigError: an option, a source or the model is invalid; the output folder cannot be
                written.
            BackendError: the device is missing, or cannot run the model.
        """
        timer = StartupTimer(clock, imports_seconds)
        with compute_resources(options.compute):
            return cls._prepare(with_task(options), tuple(command), timer)

    @classmethod
    def _prepare(
        cls, options: RunOptions, command: tuple[str, ...], timer: StartupTimer
    ) -> "LiveRunner":
        compute, read = options.compute, options.input
        _check_live(options)
        check_devices(compute)
        check_task(options)
        prepare_tracers(options.marks, timer)
        sources = open_sources(
            read.sources,
            options.flow.pace,
            SourceOptions(wait_for_source=options.flow.wait_for_source),
            on_error=read.on_error,
            rate=read.rate,
        )
        drop_policy_of(options.flow, is_live=latency_base(sources) != "full_speed")
        is_video, clips = task_name(options) == "video", options.clips
        if is_video and read.stride != 1:
            raise ConfigError("--stride is for single frames; give --clip-stride for clips")
        if not is_video:
            clip_window_of(None, stride=clips.clip_stride, hop=clips.clip_hop)
        prepare_folder(
            options.output.out, *(Path(s.name) for s in sources if isinstance(s, FileSource))
        )
        size = 1 if is_video else compute.batch_size
        return cls(
            options=options,
            sources=sources,
            model=ready_model(partial(load_model, options), compute, batch_size=size, timer=timer),
            command=command,
            startup=tuple(timer.parts),
            clock=timer.clock,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the sources, without credentials."""
        return tuple(source.name for source in self.sources)

    def new_board(self) -> StatusBoard:
        """Return a new status board of this run, for the field `board`."""
        title = f"{self.model.name} on {', '.join(self.names)}"
        return StatusBoard(title, latency_base(self.sources), self.clock)

    def plan(self) -> LivePlan:
        """Return the plan of the run, without sinks."""
        compute, clips, flow = self.options.compute, self.options.clips, self.options.flow
        num_frames = self.model.input.num_frames
        return LivePlan(
            sources=self.sources,
            model_runner=ModelRunner.of_model(self.model, compute.prep_level),
            overload=self._drop_policy,
            batch_size=compute.batch_size,
            clips=clip_window_of(num_frames, stride=clips.clip_stride, hop=clips.clip_hop),
            stride=self.options.input.stride,
            max_seconds=flow.max_seconds,
            transfer=None if compute.device == "cpu" else Transfer(compute.device),
        )

    def configuration(self) -> dict[str, Scalar]:
        """Return every option in force, with names of sources and the resolved drop policy."""
        policy = self._drop_policy
        resolved = {"overload": policy.name, "queue": policy.queue}
        return self.options.configuration(self.names) | resolved

    @property
    def _drop_policy(self) -> DropPolicy:
        is_live = latency_base(self.sources) != "full_speed"
        return drop_policy_of(self.options.flow, is_live=is_live)

    def _step_source(self, recorder: Recorder) -> "LiveSteps":
        return LiveSteps(self, recorder)


class LiveSteps(ResultSteps):
    """Steps of live sources."""

    def __init__(self, runner: LiveRunner, recorder: Recorder) -> None:
        """See `ResultSteps`."""
        plan, clock = runner.plan(), runner.clock
        super().__init__(runner, recorder, runner.names, is_interleaved=True, is_live=plan.is_live)
        self._runner = runner
        wall = WallTime.of(clock)
        self._started = wall.at(recorder.start_ns) if plan.is_live else None
        notify = notice_sender(runner.sources, wall, runner.on_notice)
        self._sinks = LiveSinks(
            self._all_sinks,
            keeps_all=plan.overload.keeps_all,
            clock=clock,
            marks=self._tracers.marks,
            max_frames=plan.batch_size if plan.clips is None else 1,
            on_event=notify,
        )

        def show(batch: ViewBatch) -> None:
            self._sinks.fan.put(sink_batches(batch, wall if plan.is_live else None))

        self._pipeline = LivePipeline(
            replace(plan, show=show), clock, self._tracers.marks, on_event=notify
        )
        self._is_over = False

    @contextmanager
    def open(self) -> Iterator[None]:
        """See `StepSource.open`."""
        with self._sinks.open(), self._tracers, self._sinks.running(), self._pipeline:
            yield

    def steps(self) -> Iterator[Step]:
        """See `StepSource.steps`."""
        runner, pipeline, board = self._runner, self._pipeline, self._runner.board
        is_live, start_ns = pipeline.plan.is_live, self._recorder.start_ns
        if board is not None:
            board.start(pipeline, self._sinks)
        for number, item in enumerate(pipeline):
            step = step_of(item, number, start_ns, is_live=is_live, clock=runner.clock)
            self._tracers.add(item, step, pipeline.run)
            if board is not None:
                board.add(step)
            yield step
            self._sinks.check()
            if number + 1 == runner.options.input.max_steps:
                break

    def finish(self) -> None:
        """See `StepSource.finish`."""
        self._is_over = True
        if self._runner.board is not None:
            self._runner.board.stop()

    def parts(self) -> dict[str, Any]:
        """See `StepSource.parts`."""
        runner, pipeline, common = self._runner, self._pipeline, super().parts()
        stages, queues = stage_records(pipeline, self._sinks.fan)
        counts = pipeline.conserved() if self._is_over else pipeline.run.flow()
        events = (
            *_event_records(pipeline, self._sinks.events, self._recorder.start_ns),
            *common["events"],
        )
        return {
            **common,
            "kind": "live" if pipeline.plan.is_live else "run",
            "pace": latency_base(runner.sources),
            "started": self._started,
            "stages": stages,
            "queues": queues,
            "items": ItemCounts.of(counts),
            "sources": tuple(
                SourceRecord(
                    name=source.name,
                    arrived=progress.arrived,
                    error=None if progress.error is None else first_line(progress.error),
                )
                for source, progress in zip(runner.sources, pipeline.progress, strict=True)
            ),
            "events": tuple(sorted(events, key=lambda event: event.at_seconds)),
            # Only of files: streams report lost frames as events.
            "lost": tuple(
                lost_frame(loss, number)
                for number, source in enumerate(runner.sources)
                if isinstance(source, FileSource)
                for loss in source.losses
            ),
            "notes": (
                *precision_notes(runner.options.compute),
                *random_weights_notes(runner.options.compute),
                *common["notes"],
            ),
        }


def step_of(
    item: Item[ViewBatch], number: int, start_ns: int, *, is_live: bool, clock: Clock
) -> Step:
    """Return the record of a step that is completed now; `start_ns` is the start of the run."""
    batch, captured = item.value, item.value.views[-1][-1].captured_seconds
    since_ms = (clock.now_ns() - item.spans[-1].end_ns) / 1e6
    fields: dict[str, Any] = {
        "input": item.source or 0,
        "first_index": batch.views[0][0].number,
        "frames": item.parts,
    }
    if is_live:
        # None for frames of several segments or sources.
        segments = {(frame.source, frame.segment) for view in batch.views for frame in view}
        fields["segment"] = segments.pop()[1] if len(segments) == 1 else None
        fields["arrived_ms"] = max(0.0, (batch.newest_ns - start_ns) / 1e6)
        if batch.oldest_ns != batch.newest_ns:
            fields["oldest_arrived_ms"] = max(0.0, (batch.oldest_ns - start_ns) / 1e6)
    if captured is not None:
        fields["capture_latency_ms"] = (clock.wall_seconds() - captured) * 1e3 - since_ms
    return make_step(item.spans, number, start_ns, **fields)


def stage_records(
    pipeline: LivePipeline, fan: FanOut[Results] | None
) -> tuple[tuple[StageRecord, ...], tuple[QueueRecord, ...]]:
    """Return the records of all stages, queues and sinks, in pipeline order."""
    transfer = pipeline.plan.transfer
    stages, queues = pipeline_records(pipeline.run, {"transfer": transfer} if transfer else {})
    if fan is None:
        return stages, queues
    return (
        (*stages, *(record_of(StageRecord, sink, role="sink") for sink in fan.statistics())),
        (*queues, *(QueueRecord.of(queue, feeds=queue.name) for queue in fan.queues())),
    )


def _event_records(
    pipeline: LivePipeline, of_sinks: Sequence[Event], start_ns: int
) -> Iterator[EventRecord]:
    """Yield the events of sources, of overload and of sinks."""
    drops = (
        Event(at_ns=s.began_ns, source=s.source, kind="dropped", words=s.words, frames=s.frames)
        for s in pipeline.drops.spells
    )
    ends = (
        Event(
            at_ns=progress.failed_ns,
            source=source,
            kind="failed",
            words=first_line(progress.error),
        )
        for source, progress in enumerate(pipeline.progress)
        # The pipeline has an event of a source that failed after its first frame.
        if progress.error is not None and not progress.has_frames
    )
    # A copy of the events, because threads of sources append.
    for event in (*list(pipeline.events), *drops, *ends, *of_sinks):
        at_seconds = max(0.0, (event.at_ns - start_ns) / 1e9)
        yield record_of(EventRecord, event, at_seconds=at_seconds)


def _check_live(options: RunOptions) -> None:
    """Raise ConfigError for an option that only runs of files at full speed support."""
    execution = options.compute.execution
    unsupported = {
        f"--decode {options.input.decode}": DecoderConfig.parse(options.input.decode) != ON_CPU,
        "--batch-size auto": execution.fit_batch,
        "--prep-on-gpu": execution.prep_on_gpu,
        "--split-point": execution.split_point is not None,
    }
    for option, is_given in unsupported.items():
        if is_given:
            raise ConfigError(
                f"{option} is for single frames of files at full speed; leave it out for cameras, "
                "real time, clips and --view"
            )
