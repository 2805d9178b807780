"""Run of files at full speed: decode -> preprocess -> transfer -> model -> sinks."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from headrace.decode.decoder_config import DecoderConfig, to_option_words
from headrace.decode.index_store import IndexStore
from headrace.errors import BackendError, HeadraceError, first_line
from headrace.models.catalogue import check_name
from headrace.models.device import is_out_of_memory, release_memory
from headrace.models.memory_table import MemoryTables
from headrace.models.model import Compiler, Model, compile_module, fit_to_shape
from headrace.preprocess.levels import Preprocess, build_preprocess
from headrace.profiling.input_records import DecodeStats, lost_frame, summarize
from headrace.profiling.metrics import Metrics
from headrace.profiling.provenance import Scalar
from headrace.profiling.recorder import Recorder
from headrace.profiling.run_records import ItemCounts, StageRecord
from headrace.profiling.session import Session, Step
from headrace.runs.model_setup import (
    StartupTimer,
    check_devices,
    check_task,
    compute_resources,
    fit_model,
    halve_until_it_fits,
    load_model,
    precision_notes,
    random_weights_notes,
    ready_model,
    with_task,
)
from headrace.runs.output_folder import open_sinks, prepare_folder
from headrace.runs.run_inputs import (
    RunInputs,
    check_decoder,
    check_inputs,
    decoding_notes,
    open_inputs,
    try_decoder,
)
from headrace.runs.run_options import RunOptions, TracingOptions
from headrace.runs.run_session import BaseRunner, ResultSteps, make_step, pipeline_records
from headrace.runs.run_stages import SOURCE, Transfer, Transfers, stages_of
from headrace.runs.tracers import prepare_tracers
from headrace.runs.what_if import change_options, measure_alternatives, option_text
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.pipeline import Pipeline
from headrace.sinks.batch_results import ResultSink
from headrace.sinks.custom_sink import any_sink_needs_frames


@dataclass(frozen=True, kw_only=True)
class Runner(BaseRunner):
    """Run of files, ready to start: sources indexed, model loaded and warm."""

    options: RunOptions
    """Options, with a measured batch size in place of `auto`."""
    inputs: RunInputs
    model: Model[Any]
    on_probe: Callable[[str], None] = field(default=lambda setting: None)
    """Called after the run, before each measurement of a setting, such as `--batch-size 32`."""
    notes: tuple[str, ...] = ()
    """Decisions made before the run, one sentence each."""
    transfers: Transfers = field(default_factory=Transfers)
    """Transfers between devices."""
    decoding: DecoderConfig | None = None
    """None: the decoder of the options."""
    preprocess: Preprocess | None = None
    """None: the preprocessing of the options."""
    sinks: tuple[ResultSink, ...] = ()
    """Sinks besides those of the options; closed when the run ends."""

    @classmethod
    def prepare(
        cls,
        options: RunOptions,
        *,
        command: Sequence[str] = (),
        store: IndexStore | None = None,
        imports_seconds: float | None = None,
        clock: Clock = SYSTEM_CLOCK,
        compiler: Compiler = compile_module,
    ) -> "Runner":
        """Load the model and check options and inputs before the first frame.

        Args:
            options: Options of the run.
            command: The command line, for the record.
            store: Cache of indexes and memory tables; None: the user's cache folder.
            imports_seconds: Seconds from the start of the process, for the record.
            clock: Clock of the run.
            compiler: Compiles the model if the options request it.

        Raises:
            ConfigError: a model, layer or core does not exist; weights do not fit; options
                contradict each other; the output folder cannot be written.
            BackendError: a device or an extra is missing; the device cannot run the model or
                decode a video.
            MediaError: a source cannot be opened as video.
        """
        timer = StartupTimer(clock, imports_seconds)
        with compute_resources(options.compute):
            return cls._prepare(with_task(options), tuple(command), store, timer, compiler)

    @classmethod
    def _prepare(
        cls,
        options: RunOptions,
        command: tuple[str, ...],
        store: IndexStore | None,
        timer: StartupTimer,
        compiler: Compiler,
    ) -> "Runner":
        compute = options.compute
        check_devices(compute)  # before reading or writing files
        check_decoder(options)
        if options.detection is None:  # video models run in live runs
            check_name(compute.model_name, "classification")
        check_task(options)
        prepare_tracers(options.marks, timer)
        with timer.part("index"):
            inputs, notes = open_inputs(options, store)
        check_inputs(inputs, options)
        try_decoder(inputs.indexes, options.decoding(), timer)
        videos = [index.source.path for index in inputs.indexes] if options.output.video else []
        prepare_folder(options.output.out, *videos)
        frames, load = inputs.reader(options).frames_planned, partial(load_model, options)
        kept: dict[str, Any] = {"frame_size": inputs.largest, "timer": timer, "compiler": compiler}
        if compute.execution.fit_batch:
            tables = MemoryTables.beside(store)
            model, batch_size, more = fit_model(load, compute, frames=frames, tables=tables, **kept)
            compute, notes = replace(compute, batch_size=batch_size), (*more, *notes)
            options = replace(options, compute=compute)
        else:
            model = ready_model(load, compute, batch_size=min(compute.batch_size, frames), **kept)
        return cls(
            options=options,
            inputs=inputs,
            model=model,
            command=command,
            startup=tuple(timer.parts),
            notes=(*notes, *precision_notes(compute), *random_weights_notes(compute)),
            transfers=_transfers_of(model, options),
            clock=timer.clock,
        )

    @property
    def frames_planned(self) -> int:
        """Frames of the run, damaged ones included."""
        return self.inputs.reader(self.options).frames_planned

    def _step_source(self, recorder: Recorder) -> "FileSteps":
        return FileSteps(self, recorder)

    def _failure_text(self, failure: HeadraceError) -> str:
        """Return the reason in one line, for out-of-memory errors with the fix."""
        advice = "; use a smaller --batch-size" if is_out_of_memory(failure.__cause__) else ""
        return to_option_words(first_line(failure)) + advice

    def _run_all(self, on_step: Callable[[Step], None]) -> Session:
        """Run, with smaller batches if memory runs out, then measure other settings.

        If memory runs out with `--batch-size auto`, the run restarts at step 0 with half the batch
        size, repeatedly, and with a note. On the CPU, settings that may remove the bottleneck are
        then measured for a few seconds: see `measure_alternatives`.
        """
        runner, (session, failure) = self, self._run_once(on_step)
        while (
            failure is not None
            and is_out_of_memory(failure.__cause__)
            and (smaller := runner._with_half_batch(session)) is not None
        ):
            runner = smaller
            session, failure = runner._run_once(on_step)
        if self.on_record is not None:
            self.on_record(session)
        # Larger batches of detectors need gigabytes more, and their times depend on the content.
        compute = self.options.compute
        is_fixed = compute.execution.compile or self.options.detection is not None
        return measure_alternatives(
            session,
            runner._probe,
            frames=runner.frames_planned,
            is_fixed=is_fixed,
            clock=self.clock,
        )

    def _with_half_batch(self, failed: Session) -> "Runner | None":
        """Return the run with half the batch size; None: it cannot restart.

        A run with a batch size chosen by the user cannot restart, nor one with custom sinks, which
        cannot reopen.
        """
        compute = self.options.compute
        has_custom_sinks = self.sinks or self.options.output.sinks
        if not compute.execution.fit_batch or compute.batch_size == 1 or has_custom_sinks:
            return None
        release_memory()
        try:
            model, batch_size, _ = halve_until_it_fits(
                lambda size: fit_to_shape(
                    self.model, self.model.input.shape(size, self.inputs.largest)
                ),
                compute.batch_size // 2,
            )
        except BackendError:
            return None
        note = (
            f"memory ran out with batches of {compute.batch_size} after "
            f"{failed.wall_seconds:.1f} s; the run restarted with {batch_size}"
        )
        return replace(
            self,
            options=replace(self.options, compute=replace(compute, batch_size=batch_size)),
            model=model,
            transfers=_transfers_of(model, self.options),
            notes=(*self.notes, note),
            before_start=lambda: None,
        )

    def _probe(self, changed: Mapping[str, Scalar], steps: int) -> float | None:
        """Run some steps with changed options; return milliseconds per frame; None: it failed."""
        self.on_probe(option_text(changed) if changed else "the same settings again")
        with TemporaryDirectory(prefix="headrace-probe-") as folder:
            options = change_options(self.options, {**changed, "max_steps": steps}, Path(folder))
            probe = replace(
                self,
                options=replace(options, marks=TracingOptions()),
                sinks=(),
                before_start=lambda: None,
                on_record=None,
            )
            with compute_resources(probe.options.compute):
                session, _ = probe._run_once(lambda step: None)
        rate = Metrics.of(session).fps_mean
        return 1e3 / rate if rate and session.outcome == "complete" else None


class FileSteps(ResultSteps):
    """Steps of files at full speed."""

    def __init__(self, runner: Runner, recorder: Recorder) -> None:
        """See `ResultSteps`."""
        options, inputs = runner.options, runner.inputs
        super().__init__(runner, recorder, inputs.names, indexes=inputs.indexes)
        self._runner = runner
        marks = self._tracers.marks
        self._batches = inputs.reader(options, runner.decoding, runner.clock, marks)
        self._transfers = runner.transfers
        if (runner.decoding or options.decoding()).keeps_on_device:
            # Frames on a device are copied to the CPU only for sinks that need them.
            output = options.output
            is_needed = output.video or runner.sinks or any_sink_needs_frames(output.sinks)
            to_sinks = (self._transfers.to_sinks or Transfer("cpu")) if is_needed else None
            self._transfers = replace(self._transfers, to_sinks=to_sinks)
        level, model = options.compute.prep_level, runner.model
        preprocess = runner.preprocess or build_preprocess(level, model.input)
        # The decoding threads trace the source.
        self._run = Pipeline(
            source=self._batches,
            stages=stages_of(preprocess, self._transfers, model, self._all_sinks),
            source_name=SOURCE,
            traces_source=False,
        ).run(clock=runner.clock, tracer=marks)

    @contextmanager
    def open(self) -> Iterator[None]:
        """See `StepSource.open`."""
        with open_sinks(self._all_sinks), self._tracers, self._run:
            yield

    def steps(self) -> Iterator[Step]:
        """See `StepSource.steps`. Decoding runs ahead: its work is not the wait for frames."""
        for number, item in enumerate(self._run):
            step = make_step(item.spans, number, self._recorder.start_ns, **item.value)
            self._tracers.add(item, step, self._run, source_number=self._planned(step))
            yield step

    def parts(self) -> dict[str, Any]:
        """See `StepSource.parts`."""
        runner, batches, common = self._runner, self._batches, super().parts()
        names = runner.inputs.names
        (source, *others), queues = pipeline_records(self._run, self._transfers.by_stage())
        busy = sum(step.work_ms[SOURCE] for step in self._recorder.steps) / 1e3
        return {
            **common,
            "inputs": tuple(map(summarize, runner.inputs.indexes)),
            "stages": (decode_ahead_record(source, batches.threads, busy), *others),
            "queues": queues,
            "items": ItemCounts.of(self._run.flow()),
            "decode": DecodeStats(**vars(batches.counters)),
            "lost": tuple(lost_frame(loss, names.index(loss.source)) for loss in batches.losses),
            "notes": (*runner.notes, *decoding_notes(batches), *common["notes"]),
        }

    def _planned(self, step: Step) -> int:
        """Return the planned index of a step's batch; batches of damaged frames have no step."""
        options, indexes = self._runner.options, self._runner.inputs.indexes
        if not indexes:
            return step.step
        batch_size, stride = options.compute.batch_size, options.input.stride
        before = (-(-len(index) // stride) for index in indexes[: step.input])
        batches = sum(-(-frames // batch_size) for frames in before)
        return batches + step.first_index // (batch_size * stride)


def decode_ahead_record(source: StageRecord, threads: int, busy_seconds: float) -> StageRecord:
    """Return the record of the threads that decode ahead, from the record of the source.

    The source only waits for these threads. A thread that does not work is blocked.
    """
    life = threads * (source.busy_seconds + source.starved_seconds + source.blocked_seconds)
    return source.model_copy(
        update={
            "workers": max(1, threads),
            "busy_seconds": busy_seconds,
            "starved_seconds": 0.0,
            "blocked_seconds": max(0.0, life - busy_seconds),
        }
    )


def _transfers_of(model: Model[Any], options: RunOptions) -> Transfers:
    return Transfers.of(
        model,
        prep_on_gpu=options.compute.execution.prep_on_gpu,
        keeps_frames=options.decoding().keeps_on_device,
    )
