"""Extracting frames: planned, done by workers, recorded; where a run ended, the next goes on."""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from headrace.decode.index_store import IndexStore
from headrace.extraction.attempt import Ended, RunWatch, startup_parts
from headrace.extraction.forecast import Forecast, forecast
from headrace.extraction.frame_plan import FramePlan
from headrace.extraction.frame_request import FrameOptions
from headrace.extraction.frame_session import ROLES, Settled, session_of
from headrace.extraction.frame_worker import extract_frames
from headrace.extraction.ledger import Ledger
from headrace.extraction.names import frame_file
from headrace.extraction.recorder import Listening, Recorder
from headrace.extraction.table import NAME, check_pyarrow, remove_table, write_table
from headrace.extraction.workers import Work, WorkOutcome, work_through
from headrace.profiling.machine import provenance
from headrace.profiling.provenance import Provenance
from headrace.profiling.session import Session
from headrace.profiling.setup import StartUpPart
from headrace.runtime.child import ChildFunction
from headrace.runtime.clock import SYSTEM_CLOCK, Clock


@dataclass(frozen=True, kw_only=True)
class Extracted:
    """What an extraction came to."""

    session: Session
    """Of this run alone; of a whole extraction, `lost` of it tells of earlier runs too."""
    pictures: int
    """That lie in the folder now."""
    were_there: int
    """Of these, from earlier runs."""
    wanted: int
    """Frames that were asked for, in videos that could be opened."""

    @property
    def is_all(self) -> bool:
        """Whether all that was asked for came, concealed frames among it."""
        is_left_out = any(each.index is None for each in self.session.lost)
        has_come = self.pictures == self.wanted and not is_left_out
        return self.session.outcome == "complete" and has_come


@dataclass(frozen=True, kw_only=True, eq=False)
class FrameExtraction:
    """An extraction that can begin: `FrameExtraction.prepare(options).run()`."""

    options: FrameOptions
    plan: FramePlan
    store: IndexStore
    command: tuple[str, ...] = ()
    """The command line, for the record."""
    startup: tuple[StartUpPart, ...] = ()
    """What was done until here."""
    function: ChildFunction = field(default=extract_frames)
    """What each worker runs."""
    clock: Clock = SYSTEM_CLOCK

    @classmethod
    def prepare(
        cls,
        options: FrameOptions,
        *,
        command: Sequence[str] = (),
        store: IndexStore | None = None,
        imports_seconds: float | None = None,
        on_video: Callable[[str, int, int], None] = lambda name, done, of: None,
        function: ChildFunction = extract_frames,
        clock: Clock = SYSTEM_CLOCK,
    ) -> "FrameExtraction":
        """Check everything that can be checked before the first frame; nothing is written.

        Args:
            options: What to extract.
            command: The command line, for the record.
            store: Where indexes are kept; None means the user's cache folder.
            imports_seconds: How long the program took to get here, for the record.
            on_video: Called with a name, how many are done and of how many, as videos are indexed.
            function: What each worker runs.
            clock: What measures.

        Raises:
            ConfigError: no frame is wanted, a time lies behind the end of a video, the folder holds
                something else or another extraction.
            BackendError: pyarrow is missing, or Pillow cannot write the format.
            MediaError: a video cannot be opened, and this is to be an error, or none can.
        """
        check_pyarrow()
        options.pictures.check()
        ledger = Ledger(options.out)
        ledger.before()
        store, began_ns = store or IndexStore(), clock.now_ns()
        plan = FramePlan.of(options, store, on_video)
        ledger.check(plan.request)
        parts = {"imports": imports_seconds, "index": (clock.now_ns() - began_ns) / 1e9}
        return cls(
            options=options,
            plan=plan,
            store=store,
            command=tuple(command),
            startup=startup_parts(parts),
            function=function,
            clock=clock,
        )

    @property
    def workers(self) -> int:
        """Processes that will work, if none of it is done yet."""
        return max(1, min(self.options.processes, len(self.plan.chunks)))

    def forecast(self) -> Forecast:
        """Return how many pictures, how large and how long: decodes and encodes a few of them."""
        return forecast(self.plan, self.options.pictures, self.workers, self.clock)

    def run(self, on_frames: Callable[[int], None] = lambda count: None) -> Extracted:
        """Extract what is missing in the folder, and write the table when nothing is.

        An interrupt or an error ends it early; what is done stays, and the next run goes on.

        Args:
            on_frames: Called with a number of frames that are settled: came, lost, or were there.

        Raises:
            ConfigError: another run has the folder, or it holds another extraction.
        """
        made = provenance(self.options.configuration(), self.command, self.clock)
        ledger = Ledger(self.options.out)
        with ledger.held(self.plan.request):
            return self._run(ledger, made, on_frames)

    def _run(self, ledger: Ledger, made: Provenance, on_frames: Callable[[int], None]) -> Extracted:
        watch = RunWatch(self.clock)
        recorder = Recorder(
            Listening(
                places=self.plan.places,
                roles=ROLES,
                start_ns=watch.start_ns,
                clock=self.clock,
                on_frames=on_frames,
            )
        )
        before = Settled.of(ledger, self.plan, {})
        on_frames(before.pictures)
        left_out: dict[str, str] = {}

        def work() -> bool:
            left_out.update(ledger.quarantine().standing(retry=self.options.retry))
            done = self._work(ledger, {*before.entries, *left_out}, recorder)
            left_out.update({**done.fallen, **recorder.unreadable})
            settled = Settled.of(ledger, self.plan, left_out)
            self._remove_unknown(settled)
            if settled.is_whole(self.plan):
                path = self.options.out / NAME
                write_table(path, settled.rows(self.plan), self.plan.indexes)
            return done.is_interrupted

        ended = Ended.of(work)
        settled = Settled.of(ledger, self.plan, left_out)
        session = session_of(self.plan, settled, recorder, made, ended)
        facts = {
            "startup": self.startup,
            "stages": recorder.stages(self.workers),
            "notes": (*self.plan.notes, *_were_there(before.pictures)),
        }
        return Extracted(
            session=watch.written_on(session, facts),
            pictures=settled.pictures,
            were_there=before.pictures,
            wanted=self.plan.frames,
        )

    def _work(self, ledger: Ledger, done: Collection[str], recorder: Recorder) -> WorkOutcome:
        todo = [chunk for chunk in self.plan.chunks if chunk.name not in done]
        if todo:
            remove_table(self.options.out / NAME)
        work = Work(
            function=self.function,
            argument={
                "folder": str(self.options.out.absolute()),
                "store": str(self.store.folder.absolute()),
                "raises": self.options.on_error == "raise",
            },
            claims=ledger.claims(),
            workers=self.options.processes,
            stall_seconds=self.options.stall_seconds,
        )
        return work_through(
            work,
            {chunk.name: [chunk.video, chunk.start, chunk.stop] for chunk in todo},
            on_said=recorder.hear,
            on_fallen=ledger.quarantine().add,
            clock=self.clock,
        )

    def _remove_unknown(self, settled: Settled) -> None:
        """Remove pictures that a worker wrote right before it died, so that no table lists them."""
        for chunk, number in settled.left_over(self.plan):
            name = self.plan.request.videos[chunk.video].name
            index = self.plan.indexes[chunk.video]
            file = frame_file(self.options.pictures, name, index, number)
            with suppress(OSError):
                (self.options.out / file).unlink()


def _were_there(pictures: int) -> tuple[str, ...]:
    return (f"{pictures} pictures were there already, from earlier runs",) if pictures else ()
