"""Base of all extractions: plan, run by workers, record, and resume.

Each kind of extraction is a subclass of `Extraction`: it defines the wanted frames, their chunks,
the worker and the journal entries.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, Self, TypeVar

import numpy as np

from headrace.decode.decoder_config import DecoderConfig
from headrace.decode.index_store import IndexStore
from headrace.decode.spilled_decoder import open_spill
from headrace.errors import file_errors
from headrace.extraction.chunk_worker import chunk_message
from headrace.extraction.extraction_options import ExtractionOptions, check_decoder
from headrace.extraction.extraction_plan import (
    Estimate,
    ExtractionPlan,
    ExtractionResult,
    KindSummary,
    Progress,
    Videos,
    Wanted,
    whole_video,
)
from headrace.extraction.journal import Journal, JournalEntry, Lost, Outcome, entry_errors
from headrace.extraction.progress_recorder import ProgressRecorder
from headrace.planning.chunks import Chunk
from headrace.profiling.input_records import LostFrame, lost_frame, summarize_all, with_content
from headrace.profiling.machine import provenance
from headrace.profiling.number_format import counted
from headrace.profiling.recorder import Recorder
from headrace.profiling.run_records import Role, Setup, StartUpPart
from headrace.profiling.session import Outcome as RunOutcome
from headrace.runtime.child_process import ChildFunction, Json
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.posix import check_posix
from headrace.runtime.worker_pool import PoolBackend, PoolResult, PoolTask, run_chunks
from headrace.video.frames import FrameLoss
from headrace.video.stream_index import StreamIndex

OptionsT = TypeVar("OptionsT", bound=ExtractionOptions)


@dataclass(frozen=True, kw_only=True, eq=False)
class Extraction(ABC, Generic[OptionsT]):
    """Prepared extraction: `FrameExtraction.prepare(options).run()`."""

    noun: ClassVar[str]
    """Name of one output, singular: `image`."""
    roles: ClassVar[Mapping[str, Role]]
    """Part of the work → its role, in order."""
    concealed: ClassVar[str]
    """Message for a damaged frame concealed by FFmpeg."""
    outputs: ClassVar[tuple[str, ...]] = ()
    """Files written last; each exists only while all files it lists exist."""
    is_by_video: ClassVar[bool] = False
    """Whether each chunk is one video, complete or missing."""

    options: OptionsT
    plan: ExtractionPlan
    store: IndexStore
    function: ChildFunction
    """Function of each worker, by kind."""
    command: tuple[str, ...] = ()
    """Command line, for the record."""
    startup: tuple[StartUpPart, ...] = ()
    """Parts of the start-up."""
    clock: Clock = SYSTEM_CLOCK

    @classmethod
    def prepare(
        cls,
        options: OptionsT,
        *,
        command: Sequence[str] = (),
        store: IndexStore | None = None,
        imports_seconds: float | None = None,
        on_video: Callable[[str, int, int], None] = lambda name, done, of: None,
        function: ChildFunction | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> Self:
        """Check the options and plan the extraction; decode and write nothing.

        Cost: reads each new video once, several videos in parallel.

        Args:
            options: Options of the extraction.
            command: Command line, for the record.
            store: Store of the indexes; None: the user's cache folder.
            imports_seconds: Time since the start of the program, for the record.
            on_video: Called with a name, the number of indexed videos and their total; with 0 of 0
                at the start of another phase, for example loading a model.
            function: Function of each worker; None: the kind's function.
            clock: Clock for the timings.

        Raises:
            ConfigError: no frame is selected, a time lies after the end of a video, a crop lies
                outside its frames, or the folder holds other files or another extraction.
            BackendError: a library, an encoder or a device is missing, or this system is Windows.
            MediaError: a video cannot be opened and `on_error` is "raise", or no video can be
                opened.
        """
        check_posix("an extraction")
        cls.check(options)
        if options.decodes_here:
            check_decoder(options.decode)
        journal = Journal(options.out)
        before = journal.before()
        store, began_ns = store or IndexStore(), clock.now_ns()
        videos = Videos.of(options, store, on_video, before)
        options.check_videos(videos.indexes.values())
        plan, seconds = cls.make_plan(options, videos, clock, lambda what: on_video(what, 0, 0))
        journal.check(plan.request)
        index_seconds = (clock.now_ns() - began_ns) / 1e9 - sum(seconds.values())
        startup = {"imports": imports_seconds, "index": index_seconds, **seconds}
        return cls(
            options=options,
            plan=plan,
            store=store,
            function=function or cls.function,
            command=tuple(command),
            startup=tuple(
                StartUpPart(name=name, seconds=max(0.0, spent))
                for name, spent in startup.items()
                if spent is not None
            ),
            clock=clock,
        )

    @classmethod
    def check(cls, options: OptionsT) -> None:
        """Check that libraries and encoders are installed, at no cost.

        Raises:
            BackendError: a library or an encoder is missing.
        """

    @classmethod
    def make_plan(
        cls, options: OptionsT, videos: Videos, clock: Clock, on_phase: Callable[[str], None]
    ) -> tuple[ExtractionPlan, Mapping[str, float]]:
        """Return the plan, and the seconds of each phase of planning by name.

        `on_phase` is called with the name of each starting phase.
        """
        parts = {
            number: cls.cut_chunks(options, number, index)
            for number, index in videos.indexes.items()
        }
        plan = ExtractionPlan(
            request=options.request(videos.asked),
            indexes=videos.indexes,
            wanted={number: wanted for number, (wanted, _) in parts.items()},
            chunks=tuple(chunk for _, chunks in parts.values() for chunk in chunks),
            left_out=videos.left_out,
            notes=videos.notes,
        )
        return plan, {}

    @classmethod
    def cut_chunks(
        cls, options: OptionsT, video: int, index: StreamIndex
    ) -> tuple[Wanted, Sequence[Chunk]]:
        """Return the wanted frames of a video, int64, ascending, and their chunks.

        Default: every frame, in one chunk.
        """
        return np.arange(len(index)), [whole_video(video, index, len(index))]

    @abstractmethod
    def outcome_of(self, entry: JournalEntry) -> Outcome:
        """Return the outcome of a chunk from its journal entry."""

    def frames_in(self, entry: JournalEntry) -> Collection[int]:
        """Return the existing frames of a started chunk."""
        return ()

    @abstractmethod
    def estimate(self) -> Estimate:
        """Return size and time of the whole extraction, from a few discarded samples.

        Writes nothing to the folder.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed.
        """

    @property
    def wanted(self) -> int:
        """Wanted outputs of all videos that can be opened."""
        return self.plan.total

    @property
    def workers(self) -> int:
        """Worker processes of a new run."""
        return max(1, min(self.options.processes, len(self.plan.chunks)))

    def run(
        self,
        on_settled: Callable[[int], None] = lambda count: None,
        on_warning: Callable[[str], None] = lambda warning: None,
        on_phase: Callable[[str], None] = lambda what: None,
    ) -> ExtractionResult:
        """Extract the missing chunks, and combine all chunks in the folder.

        After an interrupt or an error, finished chunks stay, and the next run resumes.

        Args:
            on_settled: Called with the number of frames or samples extracted, lost, or already in
                the folder, since the last call.
            on_warning: Called with each warning, one line.
            on_phase: Called with the name of each starting phase: "extracting".

        Raises:
            ConfigError: another run uses the folder, it holds another extraction, or the cache
                belongs to another program.
        """
        options = self.options
        if options.decodes_here:  # one error, instead of one per worker
            decoding = DecoderConfig.parse(options.decode)
            open_spill(options.spill, decoding, budget=options.spill_budget)
        with self.open_resources(on_warning) as extraction:
            origin = provenance(options.configuration(), self.command, self.clock)
            journal = Journal(options.out)
            record = Recorder("extract", origin, clock=self.clock, startup=self.startup)
            recorder = ProgressRecorder(
                record, self.plan.places, self.roles, on_frames=on_settled, on_phase=on_phase
            )
            with journal.held(self.plan.request):
                return extraction._run(journal, recorder)

    def open_resources(self, on_warning: Callable[[str], None]) -> AbstractContextManager[Self]:
        """Return a context of this extraction with the open resources of a run, for example a
        cache."""
        return nullcontext(self)

    def progress(self, journal: Journal, failed: Mapping[str, str]) -> Progress:
        """Return the outcomes of all chunks; `failed`: name of each chunk given up → reason.

        Raises:
            ConfigError: an entry of the journal is invalid.
        """
        done = journal.done(self.plan.by_name)
        undone = [chunk for chunk in self.plan.chunks if chunk.name not in done]
        partial = journal.partial_entries(chunk.name for chunk in undone)
        unfinished: dict[str, Outcome] = {}
        with entry_errors(journal.folder):
            outcomes = {name: self.outcome_of(entry) for name, entry in {**done, **partial}.items()}
            for chunk in undone:
                name, lost = chunk.name, list[Lost]()
                if name in failed:
                    extracted = set(self.frames_in(partial[name]) if name in partial else ())
                    frames = chunk.of(self.plan.wanted[chunk.video]).tolist()
                    lost = [Lost(n, failed[name]) for n in frames if n not in extracted]
                if name in partial or lost:
                    outcome = outcomes.get(name, Outcome(came=0))
                    unfinished[name] = replace(outcome, lost=tuple(lost))
        return Progress(
            done={name: outcomes[name] for name in done},
            unfinished=unfinished,
            failed={name: reason for name, reason in failed.items() if name not in done},
            entries={**done, **partial},
        )

    def run_chunks(
        self, journal: Journal, progress: Progress, recorder: ProgressRecorder
    ) -> PoolResult:
        """Run the unfinished chunks; the longest videos first if each chunk is a video."""
        todo = progress.without(self.plan.chunks)
        if self.is_by_video:
            todo.sort(key=lambda chunk: -chunk.cost)
        for name in self.outputs if todo else ():
            path = journal.folder / name
            with file_errors(f"cannot remove {path}", "give another folder with -o"):
                path.unlink(missing_ok=True)
        return self.work_through(
            {chunk.name: chunk_message(chunk) for chunk in todo}, journal, recorder
        )

    def finish(self, journal: Journal, progress: Progress) -> None:
        """Combine the finished chunks, also after an error or interrupt."""

    def summarize(self, recorder: ProgressRecorder, outcome: RunOutcome) -> KindSummary:
        """Return the part of the record specific to this kind."""
        return KindSummary(
            setup=Setup(batch_size=max([step.frames for step in recorder.record.steps], default=1)),
            outputs=self.outputs if outcome == "complete" else (),
            notes=recorder.decoding_notes(),
        )

    def pool_task(
        self, journal: Journal, workers: int, more: Mapping[str, Json] | None = None
    ) -> PoolTask:
        """Return the task of `workers` processes on a folder; `more`: further arguments."""
        spill = self.options.spill
        return PoolTask(
            function=self.function,
            argument={
                "folder": str(journal.folder.absolute()),
                "store": str(self.store.folder.absolute()),
                "raises": self.options.on_error == "raise",
                "decode": self.options.decode,
                "spill": None if spill is None else str(spill.expanduser().absolute()),
                "spill_budget": self.options.spill_budget,
                **(more or {}),
            },
            claims=journal.claims(),
            workers=workers,
            stall_seconds=self.options.stall_seconds,
        )

    def work_through(
        self,
        chunks: Mapping[str, Json],
        journal: Journal,
        recorder: ProgressRecorder,
        *,
        run: PoolBackend | None = None,
    ) -> PoolResult:
        """Run `chunks`, name → message, on workers; `run`: backend, default: local processes."""
        return run_chunks(
            self.pool_task(journal, self.options.processes),
            chunks,
            on_message=recorder.on_message,
            on_poisoned=journal.quarantine().add,
            run=run,
            clock=self.clock,
        )

    def _lost(self, progress: Progress) -> Iterator[LostFrame]:
        plan = self.plan
        for chunk in plan.chunks:
            outcome = progress.done.get(chunk.name) or progress.unfinished.get(chunk.name)
            if outcome is None:
                continue
            index, position = plan.indexes[chunk.video], plan.places[chunk.video]
            if self.is_by_video and outcome.lost:
                loss = FrameLoss(source=str(index.source), index=None, cause=outcome.lost[0].cause)
                yield lost_frame(loss, position)
                continue
            losses = [
                *((frame_index, self.concealed, True) for frame_index in outcome.concealed),
                *((lost.index, lost.cause, False) for lost in outcome.lost),
            ]
            for frame_index, cause, is_concealed in sorted(losses):
                loss = FrameLoss.at(index, frame_index, cause, is_concealed=is_concealed)
                yield lost_frame(loss, position)

    def _run(self, journal: Journal, recorder: ProgressRecorder) -> ExtractionResult:
        record = recorder.record
        before = self.progress(journal, {}).came
        recorder.on_frames(before)
        failed: dict[str, str] = {}

        with record.ending():
            failed.update(journal.quarantine().reasons(retry=self.options.retry))
            done = self.run_chunks(journal, self.progress(journal, failed), recorder)
            failed.update({**done.poisoned, **recorder.unreadable})
            if done.is_interrupted:
                raise KeyboardInterrupt
        with record.ending():
            self.finish(journal, self.progress(journal, failed))
        progress, plan = self.progress(journal, failed), self.plan
        summary = self.summarize(recorder, record.outcome)
        inputs, positions = summarize_all(
            plan.indexes.values(), (loss.source for loss in plan.left_out)
        )
        note = f"already in the folder, from earlier runs: {counted(before, self.noun)}"
        session = record.session(
            setup=summary.setup,
            inputs=with_content(inputs),
            lost=(
                *(lost_frame(loss, positions[loss.source]) for loss in plan.left_out),
                *self._lost(progress),
            ),
            warmup_steps=0,
            stages=recorder.stages(self.workers),
            workers=recorder.workers(),
            decode=recorder.decode,
            notes=(*plan.notes, *summary.notes, *([note] if before else [])),
            outputs=summary.outputs,
        )
        return ExtractionResult(
            session=session, came=progress.came, were_there=before, wanted=self.wanted
        )
