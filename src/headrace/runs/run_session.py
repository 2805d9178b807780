"""Base of all runs: executes steps and records them as a session."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from headrace.errors import HeadraceError, first_line
from headrace.models.model import Model
from headrace.models.outputs import BoxDecoder
from headrace.profiling.input_records import with_content, with_file_content
from headrace.profiling.machine import provenance
from headrace.profiling.provenance import Scalar, record_of
from headrace.profiling.recorder import OnRecord, Recorder
from headrace.profiling.run_records import QueueRecord, StageRecord, StartUpPart
from headrace.profiling.session import Kind, Session, Step
from headrace.runs.model_setup import compute_resources, run_setup
from headrace.runs.run_options import RunOptions
from headrace.runs.run_stages import STAGE_ROLES, Transfer
from headrace.runs.tracers import RunTracers
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.pipeline import Run
from headrace.runtime.stage import Span
from headrace.sinks.annotated import AnnotatedImages, AnnotatedVideos
from headrace.sinks.batch_results import ResultSink
from headrace.sinks.coco import CocoFile
from headrace.sinks.custom_sink import custom_sinks
from headrace.sinks.painting import BoxPainter, LabelPainter
from headrace.sinks.result_rows import open_boxes, open_predictions
from headrace.video.stream_index import StreamIndex


class StepSource(ABC):
    """Steps of a run: of files, of live sources, or of a training."""

    @abstractmethod
    def open(self) -> AbstractContextManager[object]:
        """Return the context of `steps`; it closes everything that it opens."""

    @abstractmethod
    def steps(self) -> Iterator[Step]:
        """Yield each completed step."""

    def finish(self) -> None:  # noqa: B027 - an optional hook
        """Do the work after the last step; called however the run ended."""

    @abstractmethod
    def parts(self) -> dict[str, Any]:
        """Return the current values of this source's session fields."""


@dataclass(frozen=True, kw_only=True)
class BaseRunner(ABC):
    """A run, ready to start."""

    options: Any
    """Options of the run; the type depends on the subclass."""
    command: tuple[str, ...] = ()
    """The command line, for the record; without credentials."""
    startup: tuple[StartUpPart, ...] = ()
    """Durations of the preparation."""
    before_start: Callable[[], None] = field(default=lambda: None)
    """Called before the clock of the run starts; a worker of a launch waits here."""
    on_start: Callable[[], None] = field(default=lambda: None)
    """Called before the first step; after it, an interrupt leaves a record."""
    on_record: OnRecord | None = None
    """Called at intervals with the record so far, in the thread of the run; None: never."""
    clock: Clock = SYSTEM_CLOCK
    _kind: ClassVar[Kind] = "run"
    _max_steps: ClassVar[int | None] = None
    """Max steps in the record, the latest; None: all."""

    def run(self, on_step: Callable[[Step], None] = lambda step: None) -> Session:
        """Run to the end and return the record, also after an interrupt or error.

        Args:
            on_step: Called after each step, in the caller's thread.

        Returns:
            The session, with the `outcome` of the run and the `error` of a failed run. All written
            results are complete.

        Raises:
            ConfigError: a sink cannot be written.
        """
        with compute_resources(self.options.compute):
            session = self._run_all(on_step)
        # Last, because digests read every file.
        inputs, sources = with_content(session.inputs), with_file_content(session.sources)
        return session.model_copy(update={"inputs": inputs, "sources": sources})

    def _run_all(self, on_step: Callable[[Step], None]) -> Session:
        """Run once; a subclass may repeat the run with other settings."""
        return self._run_once(on_step)[0]

    def _run_once(self, on_step: Callable[[Step], None]) -> tuple[Session, HeadraceError | None]:
        """Run once; return the record and the error that ended the run."""
        origin = provenance(self.configuration(), self.command, self.clock)
        self.before_start()
        recorder = Recorder(
            self._kind,
            origin,
            clock=self.clock,
            startup=self.startup,
            max_steps=self._max_steps,
            on_record=self.on_record,
        )
        source = self._step_source(recorder)
        with recorder.ending(self._failure_text), source.open():
            self.on_start()
            for step in source.steps():
                recorder.add(step)
                on_step(step)
                recorder.checkpoint(source.parts)
        source.finish()
        return recorder.session(**source.parts()), recorder.failure

    @abstractmethod
    def _step_source(self, recorder: Recorder) -> StepSource:
        """Return the steps of the run that `recorder` records."""

    @property
    def out(self) -> Path:
        """Folder of the results."""
        folder: Path = self.options.output.out
        return folder

    def configuration(self) -> dict[str, Scalar]:
        """Return every option in force, as a session records it."""
        configuration: dict[str, Scalar] = self.options.configuration()
        return configuration

    def _failure_text(self, failure: HeadraceError) -> str:
        """Return the reason of a failed run, in one line."""
        return first_line(failure)


class ResultSteps(StepSource):
    """Steps of a run of files or live sources, with results for sinks."""

    def __init__(
        self, runner: Any, recorder: Recorder, names: Sequence[str], **inputs: Any
    ) -> None:
        """Open the sinks; `names` and `inputs` are arguments of `open_result_sinks`.

        Raises:
            ConfigError: a sink cannot be written.
        """
        options: RunOptions = runner.options
        self._recorder, self._options, self._model = recorder, options, runner.model
        self._tracers = RunTracers(
            options.marks, options.output.out, recorder.provenance, runner.clock
        )
        sinks = open_result_sinks(options, runner.model, names, **inputs)
        self._all_sinks: tuple[ResultSink, ...] = (*sinks, *runner.sinks)

    def parts(self) -> dict[str, Any]:
        """See `StepSource.parts`."""
        options, outputs = self._options, [name for s in self._all_sinks for name in s.outputs]
        return {
            "setup": run_setup(
                options.compute,
                self._model,
                self._recorder.provenance,
                stride=options.input.stride,
                draws_video=options.output.video,
            ),
            "events": self._tracers.events(),
            "outputs": (*outputs, *self._tracers.outputs),
            "notes": tuple(sink.note for sink in self._all_sinks if isinstance(sink, CocoFile)),
        }


def open_result_sinks(
    options: RunOptions,
    model: Model[Any],
    names: Sequence[str],
    *,
    indexes: Sequence[StreamIndex] = (),
    is_interleaved: bool = False,
    is_live: bool = False,
) -> tuple[ResultSink, ...]:
    """Open the sinks of the results; the first writes the annotated video or images.

    Args:
        options: Options from `with_task`.
        model: Model from `load_model`.
        names: Names of the sources.
        indexes: Indexes of videos that are read one after the other; empty for images.
        is_interleaved: Whether frames of several sources alternate.
        is_live: Whether each frame has an `Arrival`.

    Raises:
        ConfigError: a file cannot be written; all files are then closed.
    """
    output, detection = options.output, options.detection
    out, opened = output.out, list[ResultSink]()
    painter: Any = LabelPainter if detection is None else BoxPainter
    has_frames = is_interleaved or bool(indexes)
    with ExitStack() as stack:

        def add(sink: ResultSink) -> None:
            stack.callback(sink.close)
            opened.append(sink)

        if detection is None:
            kind, top_k = output.predictions, output.top_k
            add(open_predictions(kind, out, names, top_k=top_k, is_live=is_live))
        else:
            assert isinstance(model.output, BoxDecoder)
            add(CocoFile(out, names, model.output.class_names))
            if detection.lines:
                add(open_boxes("jsonl", out, names))
            if detection.parquet:
                add(open_boxes("parquet", out, names, is_live=is_live))
        if output.video:
            annotated: ResultSink = AnnotatedImages(out)
            if has_frames:
                annotated = AnnotatedVideos(out, len(names), painter, indexes=indexes)
            opened.insert(0, annotated)
        opened += custom_sinks(output.sinks, out, names if has_frames else (), model.name)
        stack.pop_all()
    return tuple(opened)


def make_step(spans: tuple[Span, ...], number: int, start_ns: int, **fields: Any) -> Step:
    """Return the record of a step, from the work of its stages.

    Args:
        spans: Work of the stages, in order.
        number: 0-based number of the step.
        start_ns: Start of the run, by its clock.
        fields: Other fields of the step; `work_ms` overrides the work of its stages.
    """
    started_ns, ended_ns = spans[0].start_ns, spans[-1].end_ns
    work_ms = {span.stage: span.work_ns / 1e6 for span in spans}
    return Step(
        step=number,
        started_ms=(started_ns - start_ns) / 1e6,
        work_ms=work_ms | fields.pop("work_ms", {}),
        total_ms=(ended_ns - started_ns) / 1e6,
        **fields,
    )


def pipeline_records(
    run: Run, transfers: dict[str, Transfer]
) -> tuple[tuple[StageRecord, ...], tuple[QueueRecord, ...]]:
    """Return the records of all stages and queues of a pipeline, in its order.

    Args:
        run: The pipeline.
        transfers: Stage name -> transfer in that stage.
    """
    stages = tuple(
        record_of(
            StageRecord,
            stage,
            role=STAGE_ROLES[stage.name],
            **(transfers[stage.name].record if stage.name in transfers else {}),
        )
        for stage in run.stages()
    )
    consumers = [*(stage.name for stage in stages[1:]), None]
    queues = zip(run.queues(), consumers, strict=True)
    return stages, tuple(QueueRecord.of(queue, feeds=stage) for queue, stage in queues)
