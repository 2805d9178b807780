"""Extracting frames: planned, done by workers, recorded; where a run ended, the next goes on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headrace.decode.index_store import IndexStore
from headrace.extraction.attempt import Attempt, Extracted, startup_parts
from headrace.extraction.forecast import Forecast, forecast
from headrace.extraction.frame_job import FrameJob, workers_for
from headrace.extraction.frame_plan import FramePlan
from headrace.extraction.frame_request import FrameOptions
from headrace.extraction.frame_worker import extract_frames
from headrace.extraction.ledger import Ledger
from headrace.extraction.table import check_pyarrow
from headrace.profiling.setup import StartUpPart
from headrace.runtime.child import ChildFunction
from headrace.runtime.clock import SYSTEM_CLOCK, Clock


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

    def forecast(self) -> Forecast:
        """Return how many pictures, how large and how long: decodes and encodes a few of them."""
        workers = workers_for(self.options, self.plan)
        return forecast(self.plan, self.options.pictures, workers, self.clock)

    def run(self, on_frames: Callable[[int], None] = lambda count: None) -> Extracted:
        """Extract what is missing in the folder, and write the table when nothing is.

        An interrupt or an error ends it early; what is done stays, and the next run goes on.

        Args:
            on_frames: Called with a number of frames that are settled: came, lost, or were there.

        Raises:
            ConfigError: another run has the folder, or it holds another extraction.
        """
        attempt = Attempt(
            out=self.options.out,
            request=self.plan.request,
            configuration=self.options.configuration(),
            command=self.command,
            startup=self.startup,
            retry=self.options.retry,
            clock=self.clock,
        )
        job = FrameJob(
            options=self.options,
            plan=self.plan,
            store=self.store,
            function=self.function,
            clock=self.clock,
        )
        return attempt.run(job, on_frames)
