"""One run of files at full speed: decode -> preprocess -> transfer -> model -> sinks."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from headrace.decode.decoder_config import DecoderConfig, in_option_words
from headrace.decode.image_files import ImageFile
from headrace.decode.index_store import IndexStore
from headrace.errors import BackendError, HeadraceError, first_line
from headrace.models.catalogue import check_name
from headrace.models.gpu_memory import is_out_of_memory, release_memory
from headrace.models.memory_table import MemoryTables
from headrace.models.model import Model
from headrace.models.prepare import Compiler, compile_module, refitted
from headrace.preprocess.levels import Preprocess, build_preprocess
from headrace.profiling.input_records import DecodeStats, lost_frame, summarize
from headrace.profiling.metrics import Metrics
from headrace.profiling.provenance import Scalar
from headrace.profiling.recorder import Recorder
from headrace.profiling.session import Kind, Session
from headrace.profiling.stage_records import ItemCounts, StageRecord
from headrace.profiling.steps import Step
from headrace.runs.decoders import check_decoder, check_media, notes_on_decoding, try_decoder
from headrace.runs.model_setup import (
    StartWatch,
    backing_off,
    check_devices,
    computing_place,
    fitted_batch,
    notes_on,
    ready_model,
    setup_of,
)
from headrace.runs.outputs import claim, finishing
from headrace.runs.run_inputs import RunInputs, open_media
from headrace.runs.run_options import MarkOptions, RunOptions
from headrace.runs.runner import AnyRunner, line_records, timed_step
from headrace.runs.stages import SOURCE, Carriers, Shown, Transfer, stages_of
from headrace.runs.task import Task, with_task
from headrace.runs.tracers import RunTracers, prepare_marks
from headrace.runs.what_if import changed_options, with_alternatives
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.item import Item
from headrace.runtime.pipeline import Pipeline
from headrace.sinks.batch_results import SinkOf
from headrace.sinks.own_sink import any_needs_frames
from headrace.video.stream_index import StreamIndex


@dataclass(frozen=True, kw_only=True)
class Runner(AnyRunner["FileFeed"]):
    """One run, ready to start: the sources are indexed, the model loaded and warm."""

    options: RunOptions
    """With the batch size that was chosen, where it was to be chosen."""
    indexes: tuple[StreamIndex, ...]
    """Of the videos, in order."""
    model: Model[Any]
    pictures: tuple[ImageFile, ...] = ()
    """Read in place of videos, in order; where boxes are wanted."""
    notes: tuple[str, ...] = ()
    """What was decided before the run, in words."""
    carriers: Carriers = field(default_factory=Carriers)
    """What takes frames and batches to their devices."""
    decoding: DecoderConfig | None = None
    """What decodes; None means that of the options."""
    preprocess: Preprocess | None = None
    """From frames to what the model takes; None means that of the options."""
    sinks: tuple[SinkOf[Any], ...] = ()
    """Where results go besides the files of the options; closed when the run ends."""

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
        watch = StartWatch(clock, imports_seconds)
        with computing_place(options.compute):
            return cls._prepare(with_task(options), tuple(command), store, watch, compiler)

    @classmethod
    def _prepare(
        cls,
        options: RunOptions,
        command: tuple[str, ...],
        store: IndexStore | None,
        watch: StartWatch,
        compiler: Compiler,
    ) -> "Runner":
        compute, task = options.compute, Task(options)
        check_devices(compute)  # before anything is read or made
        check_decoder(options)
        if options.detection is None:  # clips are read as they come
            check_name(compute.model_name, "classification")
        task.check()
        prepare_marks(options.marks, watch)
        with watch.part("index"):
            media, notes = open_media(options, store)
        check_media(media, options)
        try_decoder(media.indexes, options.decoding(), watch)
        read = [index.source.path for index in media.indexes] if options.output.video else []
        claim(options.output.out, *read)
        frames, load = media.reader(options).frames_planned, task.load
        ready = partial(ready_model, picture_size=media.largest, watch=watch, compiler=compiler)
        if compute.execution.fit_batch:
            with watch.part("batch size"):
                loaded = load()
                choice = fitted_batch(
                    loaded,
                    compute,
                    picture_size=media.largest,
                    frames=frames,
                    tables=MemoryTables.beside(store),
                    clock=watch.clock,
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
            clock=watch.clock,
        )

    @property
    def media(self) -> RunInputs:
        """What is read."""
        return RunInputs(indexes=self.indexes, pictures=self.pictures)

    @property
    def frames_planned(self) -> int:
        """Frames the run will go through, damage aside."""
        return self.media.reader(self.options).frames_planned

    @property
    def _kind(self) -> Kind:
        return "run"

    def _feed(self, recorder: Recorder) -> "FileFeed":
        return FileFeed(self, recorder)

    def _words(self, failure: HeadraceError) -> str:
        """Return the first line of what went wrong; where memory ran out, also what to do."""
        advice = "; use a smaller --batch-size" if is_out_of_memory(failure.__cause__) else ""
        return in_option_words(first_line(failure)) + advice

    def _whole(self, on_step: Callable[[Step], None]) -> Session:
        """Run until it fits into memory, then try other settings; return the record.

        On the CPU, settings that may cure what bound the run are tried for some seconds: see
        `with_alternatives`. Where memory runs out with a batch size that was chosen for the run,
        the run begins anew with half of it, as often as it takes, step 0 again; its notes say so.
        """
        runner, (session, failure) = self, self._recorded(on_step)
        while (
            failure is not None
            and is_out_of_memory(failure.__cause__)
            and (smaller := runner._with_half_the_batch(session)) is not None
        ):
            runner = smaller
            session, failure = runner._recorded(on_step)
        if self.on_record is not None:
            self.on_record(session)
        # Larger batches of detectors take gigabytes more, and times vary with what is in a frame.
        compute = self.options.compute
        is_fixed = compute.execution.compile or self.options.detection is not None
        frames, tried = runner.frames_planned, runner._rehearsed
        return with_alternatives(session, tried, frames=frames, is_fixed=is_fixed, clock=self.clock)

    def _with_half_the_batch(self, failed: Session) -> "Runner | None":
        """Return what begins anew where memory ran out; None where there is nothing to be halved.

        A batch size that the user chose stays, and sinks of the user's own are closed by now.
        """
        compute = self.options.compute
        has_own = self.sinks or self.options.output.sinks
        if not compute.execution.fit_batch or compute.batch_size == 1 or has_own:
            return None
        release_memory()
        try:
            fitted = backing_off(
                lambda size: refitted(self.model, self.model.input.shape(size, self.media.largest)),
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
                session, _ = other._recorded(lambda step: None)
        rate = Metrics.of(session).fps_mean
        return 1e3 / rate if rate and session.outcome == "complete" else None


class FileFeed:
    """Files at full speed: a `Feed`."""

    def __init__(self, runner: Runner, recorder: Recorder) -> None:
        """Open the sinks.

        Raises:
            ConfigError: one cannot be written.
        """
        options, made = runner.options, recorder.provenance
        self._runner, self._recorder = runner, recorder
        self._tracers = RunTracers(options.marks, options.output.out, made, runner.clock)
        names, marks = runner.media.names, self._tracers.marks
        own = Task(options).sinks(runner.model, names, indexes=runner.indexes)
        self._sinks = (*own, *runner.sinks)
        self._batches = runner.media.reader(options, runner.decoding, runner.clock, marks)
        self._carriers = runner.carriers
        if (runner.decoding or options.decoding()).keeps_on_device:
            # Frames that stay on a device come down where a sink shows them.
            output = options.output
            is_shown = output.video or runner.sinks or any_needs_frames(output.sinks)
            pictures = (self._carriers.pictures or Transfer("cpu")) if is_shown else None
            self._carriers = replace(self._carriers, pictures=pictures)
        level, model = options.compute.prep_level, runner.model
        preprocess = runner.preprocess or build_preprocess(level, model.input)
        # What the source hands out is marked by the threads that decode it.
        self._run = Pipeline(
            source=self._batches,
            stages=stages_of(preprocess, self._carriers, model, self._sinks),
            source_name=SOURCE,
            traces_source=False,
        ).run(clock=runner.clock, tracer=marks)

    @contextmanager
    def open(self) -> Iterator[None]:
        """See `Feed.open`."""
        with finishing(self._sinks), self._tracers, self._run:
            yield

    def steps(self) -> Iterator[Step]:
        """See `Feed.steps`. Frames are decoded ahead: the work on them is not the wait for them."""
        for number, item in enumerate(self._run):
            step = step_of(item, number, self._recorder.start_ns)
            self._tracers.add(item, step, self._run, source_number=self._planned(step))
            yield step

    def finish(self) -> None:
        """See `Feed.finish`."""

    def parts(self) -> dict[str, Any]:
        """See `Feed.parts`."""
        runner, batches = self._runner, self._batches
        options, names = runner.options, runner.media.names
        (source, *others), queues = line_records(self._run, self._carriers.by_stage())
        busy = sum(step.work_ms[SOURCE] for step in self._recorder.steps) / 1e3
        return {
            "setup": setup_of(
                options.compute,
                runner.model,
                self._recorder.provenance,
                stride=options.input.stride,
                draws_video=options.output.video,
            ),
            "inputs": tuple(map(summarize, runner.indexes)),
            "stages": (decoded_ahead(source, batches.threads, busy), *others),
            "queues": queues,
            "items": ItemCounts.of(self._run.flow()),
            "events": self._tracers.events(),
            "decode": DecodeStats(**vars(batches.counters)),
            "lost": tuple(lost_frame(loss, names.index(loss.source)) for loss in batches.losses),
            "notes": (*runner.notes, *notes_on_decoding(batches)),
            "outputs": (
                *(name for sink in self._sinks for name in sink.outputs),
                *self._tracers.outputs,
            ),
        }

    def _planned(self, step: Step) -> int:
        """Return the number of a batch among those planned: damage leaves some empty."""
        options, indexes = self._runner.options, self._runner.indexes
        if not indexes:
            return step.step
        batch_size, stride = options.compute.batch_size, options.input.stride
        before = (-(-len(index) // stride) for index in indexes[: step.input])
        batches = sum(-(-frames // batch_size) for frames in before)
        return batches + step.first_index // (batch_size * stride)


def step_of(item: Item[Shown], number: int, start_ns: int) -> Step:
    """Return step `number` of a run that began at `start_ns`, from an item its last stage gave."""
    shown = item.value
    return timed_step(
        item.spans,
        number,
        start_ns,
        input=shown.video,
        first_index=shown.first_index,
        frames=shown.frames,
        work_ms={SOURCE: shown.decode_seconds * 1e3},
    )


def decoded_ahead(source: StageRecord, threads: int, busy_seconds: float) -> StageRecord:
    """Return the record of the threads that decode ahead, from that of the source behind them.

    They waited for room whenever they did not work; the source waits for them alone.
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


def _carriers_of(model: Model[Any], options: RunOptions) -> Carriers:
    return Carriers.of(
        model,
        prep_on_gpu=options.compute.execution.prep_on_gpu,
        are_kept=options.decoding().keeps_on_device,
    )
