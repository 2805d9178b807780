"""What is particular to an extraction of frames: pictures by workers, and a table of them."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar, Final

from headrace.decode.index_store import IndexStore
from headrace.extraction.attempt import Ended
from headrace.extraction.frame_plan import FramePlan
from headrace.extraction.frame_request import FrameOptions
from headrace.extraction.frame_settled import Settled
from headrace.extraction.ledger import Ledger
from headrace.extraction.names import frame_file
from headrace.extraction.recorder import Recorder
from headrace.extraction.table import NAME, remove_table, write_table
from headrace.extraction.workers import Work, WorkOutcome, work_through
from headrace.profiling.inputs import with_content
from headrace.profiling.media import summarize
from headrace.profiling.provenance import Provenance
from headrace.profiling.session import Session
from headrace.profiling.setup import Setup
from headrace.profiling.stages import Role
from headrace.profiling.steps import Steps
from headrace.runtime.child import ChildFunction
from headrace.runtime.clock import Clock

_ROLES: Final[Mapping[str, Role]] = {"decode": "decode", "encode": "sink", "write": "sink"}
"""Of the parts that follow each other in one worker: `step_watch.PARTS`."""


def workers_for(options: FrameOptions, plan: FramePlan) -> int:
    """Return how many processes work, if none of it is done yet."""
    return max(1, min(options.processes, len(plan.chunks)))


@dataclass(frozen=True, kw_only=True, eq=False)
class FrameJob:
    """A `Job`: pictures of frames."""

    noun: ClassVar[str] = "picture"
    roles: ClassVar[Mapping[str, Role]] = _ROLES
    options: FrameOptions
    plan: FramePlan
    store: IndexStore
    function: ChildFunction
    """What each worker runs."""
    clock: Clock

    @property
    def places(self) -> Mapping[int, int]:
        """Number of a video in the request → its place among those that could be opened."""
        return self.plan.places

    @property
    def workers(self) -> int:
        """Processes that work, if none of it is done yet."""
        return workers_for(self.options, self.plan)

    @property
    def wanted(self) -> int:
        """Frames that are wanted."""
        return self.plan.frames

    def settle(self, ledger: Ledger, left_out: Mapping[str, str]) -> Settled:
        """Return what the ledger tells. Asks for the size of every file."""
        return Settled.of(ledger, self.plan, left_out)

    def do(self, ledger: Ledger, settled: Settled, recorder: Recorder) -> WorkOutcome:
        """Have workers make the pictures that are missing."""
        done = {*settled.entries, *settled.fallen}
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

    def finish(self, ledger: Ledger, settled: Settled) -> None:
        """Write the table, where nothing is left to do."""
        self._remove_unknown(settled)
        if settled.is_whole(self.plan):
            write_table(self.options.out / NAME, settled.rows(self.plan), self.plan.indexes)

    def session(
        self, settled: Settled, recorder: Recorder, made: Provenance, ended: Ended
    ) -> Session:
        """Return the session of a run. Reads the videos, for their digests."""
        steps = recorder.steps
        return Session(
            kind="extract",
            provenance=made,
            setup=Setup(batch_size=max([step.frames for step in steps], default=1)),
            inputs=with_content([summarize(index) for index in self.plan.indexes.values()]),
            outcome=ended.outcome,
            error=ended.error,
            wall_seconds=0.0,
            steps=Steps.of(steps),
            decode=recorder.decode,
            lost=tuple(settled.lost(self.plan)),
            notes=self.plan.notes,
            outputs=(NAME,) if ended.outcome == "complete" else (),
        )

    def _remove_unknown(self, settled: Settled) -> None:
        """Remove pictures that a worker wrote right before it died, so that no table lists them."""
        for chunk, number in settled.left_over(self.plan):
            name = self.plan.request.videos[chunk.video].name
            index = self.plan.indexes[chunk.video]
            file = frame_file(self.options.pictures, name, index, number)
            with suppress(OSError):
                (self.options.out / file).unlink()
