"""One run: decode -> preprocess -> transfer -> model -> sinks, recorded as a session."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from headrace.decode.decoding import Decoding
from headrace.decode.index_store import IndexStore
from headrace.decode.option_words import in_option_words
from headrace.decode.pictures import PictureFile
from headrace.errors import BackendError, HeadraceError, first_line
from headrace.models.gpu_memory import is_out_of_memory, release_memory
from headrace.models.memory_table import MemoryTables
from headrace.models.model import Model
from headrace.models.prepare import Compiler, compile_module, refitted
from headrace.preprocess.levels import Preprocess, build_preprocess
from headrace.profiling.input_records import DecodeCounters, lost_frame, summarize, with_content
from headrace.profiling.machine import provenance
from headrace.profiling.metrics import Metrics
from headrace.profiling.provenance import Scalar
from headrace.profiling.run_records import StartUpPart
from headrace.profiling.session import Outcome, Session
from headrace.profiling.stage_records import ItemCounts
from headrace.profiling.steps import Step
from headrace.profiling.usage import ProcessorShare
from headrace.runs.alternatives import with_alternatives
from headrace.runs.checkpoints import Checkpoints, OnRecord
from headrace.runs.decoders import check_decoder, check_media, notes_on_decoding, try_decoder
from headrace.runs.instruments import Instruments
from headrace.runs.marks import prepare_marks
from headrace.runs.media import Media, Reader, open_media
from headrace.runs.options import MarkOptions, RunOptions
from headrace.runs.outputs import claim, finishing
from headrace.runs.place import computing_place
from headrace.runs.purpose import purpose_of
from headrace.runs.ready import backing_off, check_devices, fitted_batch, notes_on, ready_model
from headrace.runs.recording import (
    DecodeThreads,
    Going,
    setup_of,
    stages_and_queues,
    step_of,
)
from headrace.runs.stages import SOURCE, Carrier, Carriers, stages_of
from headrace.runs.start import StartWatch
from headrace.runs.trying import changed_options
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.pipeline import Pipeline, Run
from headrace.sinks.own_sink import any_needs_frames, own_sinks
from headrace.sinks.seen import SinkOf
from headrace.video.stream_index import StreamIndex


@dataclass(frozen=True, kw_only=True)
class Runner:
    """One run, ready to start: the sources are indexed, the model loaded and warm."""

    options: RunOptions
    """With the batch size that was chosen, where it was to be chosen."""
    indexes: tuple[StreamIndex, ...]
    """Of the videos, in order."""
    model: Model[Any]
    pictures: tuple[PictureFile, ...] = ()
    """Read in place of videos, in order; where boxes are wanted."""
    command: tuple[str, ...] = ()
    """The command line, for the record."""
    startup: tuple[StartUpPart, ...] = ()
    """What was done until here."""
    notes: tuple[str, ...] = ()
    """What was decided before the run, in words."""
    carriers: Carriers = field(default_factory=Carriers)
    """What takes frames and batches to their devices."""
    decoding: Decoding | None = None
    """What decodes; None means that of the options."""
    preprocess: Preprocess | None = None
    """From frames to what the model takes; None means that of the options."""
    sinks: tuple[SinkOf[Any], ...] = ()
    """Where results go besides the files of the options; closed when the run ends."""
    before_start: Callable[[], None] = field(default=lambda: None)
    """Called when all is ready, right before the clock of the run starts: to begin with others."""
    on_record: OnRecord | None = None
    """Called in the thread that runs with the record so far, now and then; None: never."""
    clock: Clock = SYSTEM_CLOCK

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
        """Check everything that can be checked before the first frame.

        Args:
            options: What to run.
            command: The command line, for the record.
            store: Where indexes are kept, tables of memory beside them; None means the user's cache
                folder.
            imports_seconds: How long the program took to get here, for the record.
            clock: What measures.
            compiler: What compiles the model, where the options ask for it.

        Raises:
            ConfigError: unknown model, layer or cores, weights that do not fit, options that do not
                go together, a folder that cannot be written.
            BackendError: a device or an extra is missing, the model cannot run there, or a video
                not be decoded there.
            MediaError: a source cannot be opened as video.
        """
        with computing_place(options.compute):
            return cls._prepare(
                options, tuple(command), store, StartWatch(clock, imports_seconds), compiler
            )

    @classmethod
    def _prepare(
        cls,
        options: RunOptions,
        command: tuple[str, ...],
        store: IndexStore | None,
        watch: StartWatch,
        compiler: Compiler,
    ) -> "Runner":
        compute, clock = options.compute, watch.clock
        any_needs_frames(options.output.sinks)
        check_devices(compute)  # before anything is read or made
        check_decoder(options)
        purpose = purpose_of(options)
        purpose.check()
        prepare_marks(options.marks, watch)
        with watch.part("index"):
            media, notes = open_media(options, store)
        check_media(media, options)
        try_decoder(media.indexes, options.decoding(), watch)
        read = [index.source.path for index in media.indexes] if options.output.video else []
        claim(options.output.out, *read)
        load, frames = purpose.load, media.reader(options).frames_planned
        ready = partial(
            ready_model, picture_size=media.largest, watch=watch, clock=clock, compiler=compiler
        )
        if compute.execution.fit_batch:
            with watch.part("batch size"):
                loaded = load()
                choice = fitted_batch(
                    loaded,
                    compute,
                    picture_size=media.largest,
                    frames=frames,
                    tables=MemoryTables.beside(store),
                    clock=clock,
                )
            fitted = backing_off(
                lambda size: ready(lambda: loaded, compute, batch_size=size), choice.batch_size
            )
            model, notes = fitted.model, (choice.why, *fitted.notes, *notes)
            compute = replace(compute, batch_size=fitted.batch_size)
            options = replace(options, compute=compute)
        else:
            model = ready(load, compute, batch_size=min(compute.batch_size, frames))
        return cls(
            options=options,
            indexes=media.indexes,
            pictures=media.pictures,
            model=model,
            command=command,
            startup=tuple(watch.parts),
            notes=(*notes, *notes_on(compute)),
            carriers=_carriers_of(model, options),
            clock=clock,
        )

    @property
    def frames_planned(self) -> int:
        """Frames the run will go through, damage aside."""
        return self._media.reader(self.options).frames_planned

    @property
    def _is_fixed(self) -> bool:
        # Larger batches of detectors take gigabytes more, and times vary with what is in a frame.
        return self.options.compute.execution.compile or self.options.detection is not None

    def _carriers(self) -> Carriers:
        """Return what carries: frames that stay on a device come down where a sink shows them."""
        if not (self.decoding or self.options.decoding()).keeps_on_device:
            return self.carriers
        output = self.options.output
        is_shown = output.video or self.sinks or any_needs_frames(output.sinks)
        pictures = (self.carriers.pictures or Carrier("cpu")) if is_shown else None
        return replace(self.carriers, pictures=pictures)

    @property
    def _media(self) -> Media:
        return Media(indexes=self.indexes, pictures=self.pictures)

    def run(self, on_step: Callable[[Step], None] = lambda step: None) -> Session:
        """Run to the end, and record it; an interrupt or an error ends it early, recorded too.

        On the CPU, settings that may cure what bound the run are tried afterwards for some seconds:
        see `with_alternatives`. Where memory runs out with a batch size that was chosen for the
        run, the run begins anew with half of it, as often as it takes; its notes tell.

        Args:
            on_step: Called in the caller's thread after each step, for progress; step 0 again says
                that the run has begun anew.

        Returns:
            The session; its `outcome` tells how the run ended, `error` why it failed. What was
            written until then is whole and can be used.

        Raises:
            ConfigError: a sink cannot be written.
        """
        with computing_place(self.options.compute):
            runner, session = self._until_it_fits(on_step)
            if self.on_record is not None:
                self.on_record(session)
            session = with_alternatives(
                session,
                runner._rehearsed,
                frames=runner.frames_planned,
                is_fixed=self._is_fixed,
                clock=self.clock,
            )
        return session.model_copy(update={"inputs": with_content(session.inputs)})

    def _until_it_fits(self, on_step: Callable[[Step], None]) -> "tuple[Runner, Session]":
        """Return the run that came to its end, with the batch size that it had, and its record."""
        runner, (session, ran_out) = self, self._attempt(on_step)
        while ran_out and (smaller := runner._with_half_the_batch(session)) is not None:
            runner = smaller
            session, ran_out = runner._attempt(on_step)
        return runner, session

    def _with_half_the_batch(self, failed: Session) -> "Runner | None":
        """Return what begins anew where memory ran out; None where there is nothing to be halved.

        A batch size that the user chose stays, and sinks of the user's own are closed by now.
        """
        compute, has_own = self.options.compute, self.sinks or self.options.output.sinks
        if not compute.execution.fit_batch or compute.batch_size == 1 or has_own:
            return None
        release_memory()
        try:
            fitted = backing_off(
                lambda size: refitted(
                    self.model, self.model.input.shape(size, self._media.largest)
                ),
                compute.batch_size // 2,
            )
        except BackendError:
            return None
        note = (
            f"memory ran out with batches of {compute.batch_size} after "
            f"{failed.wall_seconds:.1f} s; the run began anew with {fitted.batch_size}"
        )
        return replace(
            self,
            options=replace(self.options, compute=replace(compute, batch_size=fitted.batch_size)),
            model=fitted.model,
            carriers=_carriers_of(fitted.model, self.options),
            notes=(*self.notes, note),
            before_start=lambda: None,
        )

    def _attempt(self, on_step: Callable[[Step], None]) -> tuple[Session, bool]:
        """Run once; return its record, and whether it failed because memory ran out."""
        made = provenance(self.options.configuration(), self.command, self.clock)
        self.before_start()
        start_ns, share = self.clock.now_ns(), ProcessorShare()
        outcome: Outcome = "complete"
        error: str | None = None
        ran_out = False
        steps: list[Step] = []
        out = self.options.output.out
        instruments = Instruments(self.options.marks, out, made, self.clock)
        going = Going(
            made=made,
            start_ns=start_ns,
            clock=self.clock,
            share=share,
            steps=steps,
            instruments=instruments,
        )
        names = [str(index.source) for index in self.indexes]
        own = own_sinks(self.options.output.sinks, out, names, self.model.name)
        sinks = (*purpose_of(self.options).sinks(self.model, self.indexes), *own, *self.sinks)
        batches = self._media.reader(self.options, self.decoding, self.clock, instruments.marks)
        carriers = self._carriers()
        run = self._line(batches, carriers, sinks).run(clock=self.clock, marks=instruments.marks)

        record = partial(
            self._session, going=going, run=run, batches=batches, carriers=carriers, sinks=sinks
        )
        checkpoints = Checkpoints(self.on_record, self.clock)
        try:
            with finishing(sinks), instruments, run:
                for item in run:
                    steps.append(step_of(item, len(steps), start_ns))
                    instruments.add(item, steps[-1], run, source_number=self._planned(steps[-1]))
                    on_step(steps[-1])
                    checkpoints.look(lambda: record("interrupted", None))
        except KeyboardInterrupt:
            outcome = "interrupted"
        except HeadraceError as failure:
            outcome, error = "failed", _words(failure)
            ran_out = is_out_of_memory(failure.__cause__)
        return record(outcome, error), ran_out

    def _session(
        self,
        outcome: Outcome,
        error: str | None,
        *,
        going: Going,
        run: Run,
        batches: Reader,
        carriers: Carriers,
        sinks: Sequence[SinkOf[Any]],
    ) -> Session:
        """Return the record of a run that is over, or as far as it is."""
        options, names = self.options, self._media.names
        decoding = DecodeThreads.of(going.steps, batches.threads)
        stage_records, queue_records = stages_and_queues(
            run, decoding=decoding, carriers=carriers.by_stage()
        )
        return Session(
            **going.fields(outcome, error),
            setup=setup_of(
                options.compute,
                self.model,
                going.made,
                stride=options.input.stride,
                draws_video=options.output.video,
            ),
            inputs=tuple(map(summarize, self.indexes)),
            startup=self.startup,
            stages=stage_records,
            queues=queue_records,
            items=ItemCounts.of(run.flow()),
            events=going.instruments.events(),
            decode=DecodeCounters(**vars(batches.counters)),
            lost=tuple(lost_frame(loss, names.index(loss.source)) for loss in batches.losses),
            notes=(*self.notes, *notes_on_decoding(batches)),
            outputs=(*(n for sink in sinks for n in sink.outputs), *going.instruments.outputs),
        )

    def _rehearsed(self, changed: Mapping[str, Scalar], steps: int) -> float | None:
        """Run some steps with options changed; milliseconds per frame, None if it did not end."""
        with TemporaryDirectory(prefix="headrace-rehearsal-") as folder:
            options = changed_options(self.options, {**changed, "max_steps": steps}, Path(folder))
            other = replace(
                self,
                options=replace(options, marks=MarkOptions()),
                sinks=(),
                before_start=lambda: None,
                on_record=None,
            )
            with computing_place(other.options.compute):
                session, _ = other._attempt(lambda step: None)
        rate = Metrics.of(session).fps_mean
        return 1e3 / rate if rate and session.outcome == "complete" else None

    def _line(self, batches: Reader, carriers: Carriers, sinks: Sequence[SinkOf[Any]]) -> Pipeline:
        prep_level = self.options.compute.prep_level
        preprocess = self.preprocess or build_preprocess(prep_level, self.model.input)
        stages = stages_of(preprocess, carriers, self.model, sinks)
        # What the source hands out is marked by the threads that decode it.
        return Pipeline(source=batches, stages=stages, source_name=SOURCE, marks_source=False)

    def _planned(self, step: Step) -> int:
        """Return the number of a batch among those planned: damage leaves some empty."""
        if self.pictures:
            return step.step
        batch_size, stride = self.options.compute.batch_size, self.options.input.stride
        before = (-(-len(index) // stride) for index in self.indexes[: step.input])
        batches = sum(-(-frames // batch_size) for frames in before)
        return batches + step.first_index // (batch_size * stride)


def _carriers_of(model: Model[Any], options: RunOptions) -> Carriers:
    return Carriers.of(
        model,
        prep_on_gpu=options.compute.execution.prep_on_gpu,
        are_kept=options.decoding().keeps_on_device,
    )


def _words(failure: HeadraceError) -> str:
    """Return the first line of what went wrong; where memory ran out, also what to do."""
    advice = "; use a smaller --batch-size" if is_out_of_memory(failure.__cause__) else ""
    return in_option_words(first_line(failure)) + advice
