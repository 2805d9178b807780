"""One live run: sources -> batches or clips -> model -> sinks, recorded as a session."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

from headrace.errors import ConfigError, HeadraceError, first_line
from headrace.live.options import SourceOptions
from headrace.live.overload import Overload
from headrace.live.source import LiveSource
from headrace.models.catalogue import task_of
from headrace.models.load import load_classifier, load_clip_classifier, with_clip_length
from headrace.models.model import Model
from headrace.models.results import Labels
from headrace.profiling.input_records import NOT_COUNTED, with_file_content
from headrace.profiling.machine import provenance
from headrace.profiling.provenance import Provenance
from headrace.profiling.run_records import Setup, StartUpPart
from headrace.profiling.session import Outcome, Pace, Session
from headrace.profiling.stage_records import ItemCounts
from headrace.profiling.steps import LatestSteps, Step
from headrace.profiling.usage import ProcessorShare
from headrace.runs.checkpoints import Checkpoints, OnRecord
from headrace.runs.instruments import Instruments
from headrace.runs.live.addresses import open_sources
from headrace.runs.live.engine import Engine
from headrace.runs.live.flow import LiveFlow, LivePlan
from headrace.runs.live.full_speed import FileSource
from headrace.runs.live.notices import Notice, Notices
from headrace.runs.live.options import LiveOptions, check_live, clips_of
from headrace.runs.live.recording import (
    event_records,
    losses_of,
    source_records,
    stage_records,
    step_of,
)
from headrace.runs.live.showing import Results, SinkEnds, fan_out, results_of
from headrace.runs.live.values import Answered
from headrace.runs.live.watching import StatusBoard
from headrace.runs.marks import prepare_marks
from headrace.runs.outputs import claim
from headrace.runs.place import computing_place
from headrace.runs.ready import check_devices, notes_on, ready_model
from headrace.runs.recording import Going, setup_of
from headrace.runs.stages import Carrier
from headrace.runs.start import StartWatch
from headrace.runtime.clock import SYSTEM_CLOCK, Clock, WallTime
from headrace.runtime.fan_out import FanOut
from headrace.runtime.flow import FlowStatistics
from headrace.runtime.marks import Marks
from headrace.sinks.annotated_parts import AnnotatedParts
from headrace.sinks.own_sink import any_needs_frames, own_sinks
from headrace.sinks.prediction_table import check_table, open_predictions
from headrace.sinks.seen import Sink

_STEPS_KEPT: Final = 100_000
"""The last ones, about an hour at 30 a second in 15 MB: a run without end fits into memory."""


@dataclass(frozen=True, kw_only=True)
class LiveRunner:
    """One live run, ready to start: its sources are known, the model is loaded and warm."""

    options: LiveOptions
    sources: tuple[LiveSource, ...]
    model: Model[Labels]
    command: tuple[str, ...] = ()
    """The command line, for the record; without credentials."""
    startup: tuple[StartUpPart, ...] = ()
    """What was done until here."""
    sinks: tuple[Sink, ...] = ()
    """Where results go besides the files of the options; closed when the run ends."""
    board: StatusBoard | None = None
    """Told of the run as it goes, for those who watch it."""
    on_notice: Callable[[Notice], None] = field(default=lambda notice: None)
    """Hears at once of what happens to sources and sinks, and of overload; in any thread."""
    before_start: Callable[[], None] = field(default=lambda: None)
    """Called when all is ready, right before the clock of the run starts: to begin with others."""
    on_record: OnRecord | None = None
    """Called in the thread that runs with the record so far, now and then; None: never."""
    clock: Clock = SYSTEM_CLOCK

    @classmethod
    def prepare(
        cls,
        options: LiveOptions,
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
        with computing_place(options.compute):
            return cls._prepare(options, tuple(command), StartWatch(clock, imports_seconds))

    @classmethod
    def _prepare(
        cls,
        options: LiveOptions,
        command: tuple[str, ...],
        watch: StartWatch,
    ) -> "LiveRunner":
        check_live(options)
        any_needs_frames(options.output.sinks)
        check_devices(options.compute)
        if options.output.predictions == "parquet":
            check_table()
        compute = options.compute
        prepare_marks(options.marks, watch)
        flow = options.flow
        reading = SourceOptions(wait_for_source=flow.wait_for_source)
        sources = open_sources(
            options.input.sources,
            flow.pace,
            reading,
            on_error=options.input.on_error,
            rate=options.input.rate,
        )
        is_live = _base_of(sources) != "full_speed"
        chosen_overload(options, is_live=is_live)
        is_video = task_of(compute.model_name) == "video"
        if is_video and options.input.stride != 1:
            raise ConfigError("--stride is for single frames; give --clip-stride for clips")
        if not is_video:
            clips_of(options.clips, None)
        files = [Path(each.name) for each in sources if isinstance(each, FileSource)]
        claim(options.output.out, *files)

        def load() -> Model[Labels]:
            loader = load_clip_classifier if is_video else load_classifier
            model = loader(compute.model_name, compute.weights, top_k=options.output.top_k)
            return with_clip_length(model, options.clips.clip_len)

        size = 1 if is_video else compute.batch_size
        return cls(
            options=options,
            sources=sources,
            model=ready_model(load, compute, batch_size=size, watch=watch, clock=watch.clock),
            command=command,
            startup=tuple(watch.parts),
            clock=watch.clock,
        )

    def run(self, on_step: Callable[[Step], None] = lambda step: None) -> Session:
        """Run until the sources end, and record it; an interrupt or an error ends it early.

        A sink that fails ends alone; the timeline says so. What was written is whole and can be
        used, however the run ends.

        Args:
            on_step: Called in the caller's thread after each step, for progress.
        """
        with computing_place(self.options.compute):
            session = self._run(on_step)
        return session.model_copy(update={"sources": with_file_content(session.sources)})

    def _run(self, on_step: Callable[[Step], None]) -> Session:
        names = tuple(source.name for source in self.sources)
        made = provenance(self.options.configuration(names), self.command, self.clock)
        self.before_start()
        start_ns, share, wall = self.clock.now_ns(), ProcessorShare(), WallTime.of(self.clock)
        outcome: Outcome = "complete"
        error: str | None = None
        steps = LatestSteps(_STEPS_KEPT)
        instruments = Instruments(self.options.marks, self.options.output.out, made, self.clock)
        notices = Notices(sources=self.sources, wall=wall, hear=self.on_notice)
        going = Going(
            made=made,
            start_ns=start_ns,
            clock=self.clock,
            share=share,
            steps=steps,
            instruments=instruments,
        )
        plan = self.plan()
        ends = SinkEnds(self._sinks(), self.clock, notices.sink_failed)
        fan = self._fan(plan, ends.sinks, instruments.marks)
        flow = self._flow(plan, fan, notices, instruments.marks)
        record = partial(
            self._session, going=going, started=wall.at(start_ns), flow=flow, fan=fan, ends=ends
        )
        checkpoints = Checkpoints(self.on_record, self.clock)
        try:
            with ends, instruments, ends.noting(fan), flow:
                if self.board is not None:
                    self.board.begin(flow, fan)
                for number, item in enumerate(flow):
                    step = step_of(item, number, start_ns, is_live=plan.is_live, clock=self.clock)
                    steps.append(step)
                    instruments.add(item, step, flow.run)
                    on_step(step)
                    if self.board is not None:
                        self.board.add(step)
                    ends.look(fan)
                    checkpoints.look(lambda: record("interrupted", None, flow.run.flow()))
                    if number + 1 == self.options.input.max_steps:
                        break
        except KeyboardInterrupt:
            outcome = "interrupted"
        except HeadraceError as failure:
            outcome, error = "failed", first_line(failure)
        if self.board is not None:
            self.board.end()
        return record(outcome, error, flow.conserved())

    def _session(
        self,
        outcome: Outcome,
        error: str | None,
        counts: FlowStatistics,
        *,
        going: Going,
        started: datetime,
        flow: LiveFlow,
        fan: FanOut[Results],
        ends: SinkEnds,
    ) -> Session:
        """Return the record of a run that is over, or as far as it is."""
        stage_parts, queue_parts = stage_records(flow, fan)
        base, instruments = _base_of(self.sources), going.instruments
        return Session(
            **going.fields(outcome, error),
            kind="run" if base == "full_speed" else "live",
            setup=self._setup(going.made),
            pace=base,
            started=None if base == "full_speed" else started,
            startup=self.startup,
            stages=stage_parts,
            queues=queue_parts,
            items=ItemCounts.of(counts),
            sources=source_records(flow),
            events=event_records(flow, ends.failures, going.start_ns, instruments.events()),
            decode=NOT_COUNTED,
            lost=losses_of(self.sources),
            notes=notes_on(self.options.compute),
            outputs=(*(name for sink in ends.sinks for name in sink.outputs), *instruments.outputs),
        )

    def _setup(self, made: Provenance) -> Setup:
        options = self.options
        return setup_of(
            options.compute,
            self.model,
            made,
            stride=options.input.stride,
            draws_video=options.output.video,
        )

    def _fan(self, plan: LivePlan, sinks: Sequence[Sink], marks: Marks) -> FanOut[Results]:
        return fan_out(
            sinks,
            keeps_all=plan.overload.keeps_all,
            clock=self.clock,
            marks=marks,
            most_frames=plan.batch_size if plan.clips is None else 1,
        )

    def _flow(
        self, plan: LivePlan, fan: FanOut[Results], notices: Notices, marks: Marks
    ) -> LiveFlow:
        show = partial(_show, fan, notices.wall if plan.is_live else None)
        return LiveFlow(replace(plan, show=show), self.clock, marks, on_event=notices.event)

    def _sinks(self) -> tuple[Sink, ...]:
        output = self.options.output
        names = [source.name for source in self.sources]
        rows = open_predictions(
            output.predictions,
            output.out,
            names,
            top_k=output.top_k,
            is_live=_base_of(self.sources) != "full_speed",
        )
        own = own_sinks(output.sinks, output.out, names, self.model.name)
        if not output.video:
            return (rows, *own, *self.sinks)
        return (AnnotatedParts(output.out, len(self.sources)), rows, *own, *self.sinks)

    def new_board(self) -> StatusBoard:
        """Return a board that knows what runs here; give it as `board`."""
        names = ", ".join(source.name for source in self.sources)
        return StatusBoard(f"{self.model.name} on {names}", _base_of(self.sources), self.clock)

    def plan(self) -> LivePlan:
        """Return what the run consists of, but for its sinks."""
        compute, clips = self.options.compute, self.options.clips
        base, num_frames = _base_of(self.sources), self.model.input.num_frames
        return LivePlan(
            sources=self.sources,
            engine=Engine.of_model(self.model, compute.prep_level),
            overload=chosen_overload(self.options, is_live=base != "full_speed"),
            batch_size=compute.batch_size,
            clips=clips_of(clips, num_frames),
            stride=self.options.input.stride,
            max_seconds=self.options.flow.max_seconds,
            carrier=None if compute.device == "cpu" else Carrier(compute.device),
        )


def _show(fan: FanOut[Results], wall: WallTime | None, answered: Answered) -> None:
    fan.put(results_of(answered, wall))


def chosen_overload(options: LiveOptions, *, is_live: bool) -> Overload:
    """Return what is done when frames are too many.

    Raises:
        ConfigError: the options do not go together.
    """
    flow = options.flow
    return Overload.chosen(
        flow.overload,
        is_live=is_live,
        queue=flow.queue,
        max_staleness_seconds=flow.max_staleness_seconds,
    )


def _base_of(sources: Sequence[LiveSource]) -> Pace:
    """Return what latency counts from; one thing for all, since figures of two do not mix."""
    bases = {source.base for source in sources}
    if len(bases) > 1:
        raise ConfigError(
            f"sources of one run need one base of latency, got {' and '.join(sorted(bases))}; "
            "run files and cameras apart"
        )
    return bases.pop()
