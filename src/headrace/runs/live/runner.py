"""One live run: sources -> batches or clips -> model -> sinks, recorded as a session."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

from headrace.errors import ConfigError, HeadraceError
from headrace.live.clips import ClipShape
from headrace.live.options import SourceOptions
from headrace.live.overload import Overload
from headrace.live.source import LiveSource
from headrace.models.catalogue import task_of
from headrace.models.clip_length import with_clip_length
from headrace.models.load import load_classifier, load_clip_classifier
from headrace.models.model import Model
from headrace.models.results import Labels
from headrace.models.threads import operation_threads
from headrace.profiling.flow import ItemCounts
from headrace.profiling.inputs import NOT_COUNTED
from headrace.profiling.machine import provenance
from headrace.profiling.session import Outcome, Pace, Session
from headrace.profiling.setup import StartUpPart
from headrace.profiling.steps import Step, Steps
from headrace.profiling.usage import ProcessorShare
from headrace.runs.live.addresses import open_sources
from headrace.runs.live.engine import Engine
from headrace.runs.live.flow import LiveFlow, LivePlan
from headrace.runs.live.full_speed import FileSource
from headrace.runs.live.options import LiveOptions
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
from headrace.runs.outputs import claim
from headrace.runs.ready import ready_model
from headrace.runs.recording import setup_of
from headrace.runs.stages import Carrier
from headrace.runs.start import StartWatch
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.fan_out import FanOut
from headrace.sinks.annotated_parts import AnnotatedParts
from headrace.sinks.predictions import PredictionLines
from headrace.sinks.seen import Sink

_WARMUP_STEPS: Final = 1
_STEPS_KEPT: Final = 100_000
"""The last ones, about an hour at 30 a second in 50 MB: a run without end fits into memory."""


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
    on_notice: Callable[[str], None] = field(default=lambda words: None)
    """Told at once, in the thread that runs, of what a user should know: a sink that failed."""
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
        watch = StartWatch(clock)
        if imports_seconds is not None:
            watch.add("imports", imports_seconds)
        compute = options.compute
        flow = options.flow
        reading = SourceOptions(wait_for_source=flow.wait_for_source)
        sources = open_sources(options.sources, flow.pace, reading, on_error=options.on_error)
        is_live = _base_of(sources) != "full_speed"
        chosen_overload(options, is_live=is_live)
        is_video = task_of(compute.model_name) == "video"
        if is_video and options.stride != 1:
            raise ConfigError("--stride is for single frames; give --clip-stride for clips")
        files = [Path(each.name) for each in sources if isinstance(each, FileSource)]
        claim(options.output.out, *files)

        def load() -> Model[Labels]:
            loader = load_clip_classifier if is_video else load_classifier
            model = loader(compute.model_name, compute.weights)
            return with_clip_length(model, options.clips.clip_len)

        size = 1 if is_video else compute.batch_size
        return cls(
            options=options,
            sources=sources,
            model=ready_model(load, compute, batch_size=size, watch=watch, clock=clock),
            command=tuple(command),
            startup=tuple(watch.parts),
            clock=clock,
        )

    def run(self, on_step: Callable[[Step], None] = lambda step: None) -> Session:
        """Run until the sources end, and record it; an interrupt or an error ends it early.

        A sink that fails ends alone; the timeline says so. What was written is whole and can be
        used, however the run ends.

        Args:
            on_step: Called in the caller's thread after each step, for progress.
        """
        with operation_threads(self.options.compute.threads):
            return self._run(on_step)

    def _run(self, on_step: Callable[[Step], None]) -> Session:
        names = tuple(source.name for source in self.sources)
        made = provenance(self.options.configuration(names), self.command, self.clock)
        start_ns, share = self.clock.now_ns(), ProcessorShare()
        outcome: Outcome = "complete"
        error: str | None = None
        steps: deque[Step] = deque(maxlen=_STEPS_KEPT)
        plan, ends = self.plan(), SinkEnds(self._sinks(), self.clock, self.on_notice)
        fan = self._fan(plan, ends.sinks)
        flow = LiveFlow(replace(plan, show=partial(_show, fan)), self.clock)
        try:
            with ends, ends.noting(fan), flow:
                if self.board is not None:
                    self.board.begin(flow, fan)
                for number, item in enumerate(flow):
                    is_live = plan.is_live
                    steps.append(step_of(item, number, start_ns, is_live=is_live, clock=self.clock))
                    on_step(steps[-1])
                    if self.board is not None:
                        self.board.add(steps[-1])
                    ends.look(fan)
                    if number + 1 == self.options.max_steps:
                        break
        except KeyboardInterrupt:
            outcome = "interrupted"
        except HeadraceError as failure:
            outcome, error = "failed", str(failure).splitlines()[0]
        if self.board is not None:
            self.board.end()
        stage_parts, queue_parts = stage_records(flow, fan)
        base = _base_of(self.sources)
        return Session(
            kind="run" if base == "full_speed" else "live",
            provenance=made,
            setup=setup_of(
                self.options.compute,
                self.model,
                made,
                stride=self.options.stride,
                draws_video=self.options.output.video,
            ),
            pace=base,
            outcome=outcome,
            error=error,
            wall_seconds=(self.clock.now_ns() - start_ns) / 1e9,
            startup=self.startup,
            others_cpu_share=share.of_others(),
            warmup_steps=_WARMUP_STEPS if len(steps) > 2 * _WARMUP_STEPS else 0,
            steps=Steps.of(steps),
            stages=stage_parts,
            queues=queue_parts,
            items=ItemCounts.of(flow.conserved()),
            sources=source_records(flow),
            events=event_records(flow, ends.failures, start_ns),
            decode=NOT_COUNTED,
            lost=losses_of(self.sources),
            outputs=tuple(name for sink in ends.sinks for name in sink.outputs),
        )

    def _fan(self, plan: LivePlan, sinks: Sequence[Sink]) -> FanOut[Results]:
        return fan_out(
            sinks,
            keeps_all=plan.overload.keeps_all,
            clock=self.clock,
            most_frames=plan.batch_size if plan.clips is None else 1,
        )

    def _sinks(self) -> tuple[Sink, ...]:
        output = self.options.output
        lines = PredictionLines(output.out, [source.name for source in self.sources])
        if not output.video:
            return (lines, *self.sinks)
        return (AnnotatedParts(output.out, len(self.sources)), lines, *self.sinks)

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
            clips=None
            if num_frames is None
            else ClipShape(num_frames=num_frames, stride=clips.clip_stride, hop=clips.clip_hop),
            stride=self.options.stride,
            max_seconds=self.options.flow.max_seconds,
            carrier=None if compute.device == "cpu" else Carrier(compute.device),
        )


def _show(fan: FanOut[Results], answered: Answered) -> None:
    fan.put(results_of(answered))


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
