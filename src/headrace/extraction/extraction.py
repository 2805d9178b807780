"""An extraction of any kind: planned, done by workers, recorded; where one ended, the next goes on.

What differs from kind to kind are a few methods of a class and its `Job`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

from headrace.decode.index_store import IndexStore
from headrace.extraction.attempt import Ended, Extracted, Job
from headrace.extraction.ledger import Ledger
from headrace.extraction.options import ExtractionOptions
from headrace.extraction.plan import ExtractionPlan
from headrace.extraction.recorder import Listening, Recorder
from headrace.extraction.videos import Videos
from headrace.profiling.input_records import lost_frame, summarize_all, with_content
from headrace.profiling.machine import provenance
from headrace.profiling.number_format import counted
from headrace.profiling.provenance import Provenance
from headrace.profiling.recorder import Recorder as SessionRecorder
from headrace.profiling.run_records import StartUpPart
from headrace.runtime.child import ChildFunction, Json
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.workers import RunRound, Work, WorkOutcome, work_through

OptionsT = TypeVar("OptionsT", bound=ExtractionOptions)
PlanT = TypeVar("PlanT", bound=ExtractionPlan)


@dataclass(frozen=True, kw_only=True, eq=False)
class Extraction(ABC, Generic[OptionsT, PlanT]):
    """An extraction that can begin: `FrameExtraction.prepare(options).run()`."""

    options: OptionsT
    plan: PlanT
    store: IndexStore
    function: ChildFunction
    """What each worker runs; every kind has its own."""
    command: tuple[str, ...] = ()
    """The command line, for the record."""
    startup: tuple[StartUpPart, ...] = ()
    """What was done until here."""
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
        """Check everything that can be checked before the first frame; nothing is written.

        Cost: a video that was not seen before is read once, by workers where there are several.

        Args:
            options: What to extract.
            command: The command line, for the record.
            store: Where indexes are kept; None means the user's cache folder.
            imports_seconds: How long the program took to get here, for the record.
            on_video: Called with a name, how many are done and of how many, as videos are indexed;
                with 0 of 0, when something else begins, such as loading a model.
            function: What each worker runs; None means that of this kind.
            clock: What measures.

        Raises:
            ConfigError: nothing is wanted, a time lies behind the end of a video, the folder holds
                something else or another extraction.
            BackendError: a library, an encoder or a device is missing.
            MediaError: a video cannot be opened, and this is to be an error, or none can.
        """
        cls._check(options)
        ledger = Ledger(options.out)
        ledger.before()
        store, began_ns = store or IndexStore(), clock.now_ns()
        videos = Videos.of(
            options.sources,
            store,
            workers=options.processes,
            stall_seconds=options.stall_seconds,
            raises=options.on_error == "raise",
            on_video=on_video,
            rate=options.rate,
        )
        plan, seconds = cls._planned(options, videos, clock, lambda what: on_video(what, 0, 0))
        ledger.check(plan.request)
        index_seconds = (clock.now_ns() - began_ns) / 1e9 - sum(seconds.values())
        return cls(
            options=options,
            plan=plan,
            store=store,
            function=function or cls.function,
            command=tuple(command),
            startup=_parts({"imports": imports_seconds, "index": index_seconds, **seconds}),
            clock=clock,
        )

    @property
    @abstractmethod
    def wanted(self) -> int:
        """How many pictures, or features, were asked for, of videos that can be opened."""

    @property
    def workers(self) -> int:
        """Processes that work, if none of it is done yet."""
        return max(1, min(self.options.processes, len(self.plan.chunks)))

    @abstractmethod
    def forecast(self) -> Any:
        """Return what it would come to: a dataclass, and in its `failures` why samples are missing.

        Nothing is written to the folder; a few samples are made and thrown away.

        Raises:
            KeyboardInterrupt: somebody pressed Ctrl-C.
        """

    def run(
        self,
        on_settled: Callable[[int], None] = lambda count: None,
        on_warning: Callable[[str], None] = lambda warning: None,
        on_phase: Callable[[str], None] = lambda what: None,
    ) -> Extracted:
        """Extract what is missing in the folder, and put together all that it holds then.

        An interrupt or an error ends it early; what is done stays, and the next run goes on.

        Args:
            on_settled: Called with a number of frames, or samples, that came, were lost, or were
                there.
            on_warning: Is told each warning, one line.
            on_phase: Called with what is begun, as "extracting".

        Raises:
            ConfigError: another run has the folder, or it holds another extraction; a cache is
                somebody else's.
        """
        with self._job(on_warning) as job:
            made = provenance(self.options.configuration(), self.command, self.clock)
            ledger = Ledger(self.options.out)
            with ledger.held(self.plan.request):
                return self._run(job, ledger, made, self._recorder(job, on_settled, on_phase))

    def work(self, ledger: Ledger, workers: int, more: Mapping[str, Json]) -> Work:
        """Return what so many workers do for a folder; `more`: what they are told of this kind."""
        return Work(
            function=self.function,
            argument={
                "folder": str(ledger.folder.absolute()),
                "store": str(self.store.folder.absolute()),
                "raises": self.options.on_error == "raise",
                **more,
            },
            claims=ledger.claims(),
            workers=workers,
            stall_seconds=self.options.stall_seconds,
        )

    def work_through(
        self,
        chunks: Mapping[str, Json],
        ledger: Ledger,
        recorder: Recorder,
        *,
        more: Mapping[str, Json] | None = None,
        run: RunRound | None = None,
    ) -> WorkOutcome:
        """Have workers do `chunks`, name of each → what they are told of it: see `work`."""
        return work_through(
            self.work(ledger, self.options.processes, more or {}),
            chunks,
            on_said=recorder.hear,
            on_fallen=ledger.quarantine().add,
            run=run,
            clock=self.clock,
        )

    @classmethod
    @abstractmethod
    def _check(cls, options: OptionsT) -> None:
        """Check, at no cost, what it takes that may be missing."""

    @classmethod
    @abstractmethod
    def _planned(
        cls, options: OptionsT, videos: Videos, clock: Clock, on_phase: Callable[[str], None]
    ) -> tuple[PlanT, Mapping[str, float]]:
        """Return the plan, and the seconds of what was done for it that has a name of its own.

        `on_phase` is called with what is begun.
        """

    @abstractmethod
    def _job(self, on_warning: Callable[[str], None]) -> AbstractContextManager[Job[Any]]:
        """Return what is particular to this kind, open for a run."""

    def _run(
        self, job: Job[Any], ledger: Ledger, made: Provenance, recorder: Recorder
    ) -> Extracted:
        record = SessionRecorder("extract", made, clock=self.clock, startup=self.startup)
        record.start_ns, record.steps = recorder.listening.start_ns, recorder.steps
        before = job.settle(ledger, {}).came
        recorder.listening.on_frames(before)
        left_out: dict[str, str] = {}

        def work() -> bool:
            left_out.update(ledger.quarantine().standing(retry=self.options.retry))
            done = job.do(ledger, job.settle(ledger, left_out), recorder)
            left_out.update({**done.fallen, **recorder.unreadable})
            return done.is_interrupted

        ended = Ended.of(work, lambda: job.finish(ledger, job.settle(ledger, left_out)))
        settled, plan = job.settle(ledger, left_out), self.plan
        remarks = job.remarks(recorder, ended.outcome)
        inputs, places = summarize_all(
            plan.indexes.values(), (loss.source for loss in plan.left_out)
        )
        record.outcome, record.error = ended.outcome, ended.error
        session = record.session(
            setup=remarks.setup,
            inputs=with_content(inputs),
            lost=(
                *(lost_frame(loss, places[loss.source]) for loss in plan.left_out),
                *settled.lost(),
            ),
            warmup_steps=0,
            stages=recorder.stages(self.workers),
            workers=recorder.workers(),
            decode=recorder.decode,
            notes=(*plan.notes, *remarks.notes, *_were_there(before, job.noun)),
            outputs=remarks.outputs,
        )
        return Extracted(session=session, came=settled.came, were_there=before, wanted=self.wanted)

    def _recorder(
        self,
        job: Job[Any],
        on_settled: Callable[[int], None],
        on_phase: Callable[[str], None],
    ) -> Recorder:
        return Recorder(
            Listening(
                places=self.plan.places,
                roles=job.roles,
                start_ns=self.clock.now_ns(),
                clock=self.clock,
                on_frames=on_settled,
                on_phase=on_phase,
            )
        )


def _parts(seconds: Mapping[str, float | None]) -> tuple[StartUpPart, ...]:
    """Return what passed before a run, by name; what is not known is left out."""
    return tuple(
        StartUpPart(name=name, seconds=max(0.0, each))
        for name, each in seconds.items()
        if each is not None
    )


def _were_there(came: int, noun: str) -> tuple[str, ...]:
    were = "was" if came == 1 else "were"
    return (f"{counted(came, noun)} {were} there already, from earlier runs",) if came else ()
