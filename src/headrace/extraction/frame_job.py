"""What is particular to an extraction of frames: pictures by workers, and a table of them."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from headrace.extraction.attempt import Remarks
from headrace.extraction.extraction import Extraction
from headrace.extraction.frame_plan import FramePlan
from headrace.extraction.frame_request import FrameOptions
from headrace.extraction.frame_settled import Settled
from headrace.extraction.ledger import Ledger
from headrace.extraction.names import frame_file
from headrace.extraction.recorder import Recorder
from headrace.extraction.table import NAME, remove_table, write_table
from headrace.profiling.run_records import Setup
from headrace.profiling.session import Outcome
from headrace.profiling.stage_records import Role
from headrace.runtime.child import Json
from headrace.runtime.workers import WorkOutcome


@dataclass(frozen=True, kw_only=True, eq=False)
class FrameJob:
    """A `Job`: pictures of frames."""

    noun: ClassVar[str] = "picture"
    roles: ClassVar[Mapping[str, Role]] = {"decode": "decode", "encode": "sink", "write": "sink"}
    """Of the parts that follow each other in one worker: `step_watch.PARTS`."""
    extraction: Extraction[FrameOptions, FramePlan]

    def settle(self, ledger: Ledger, left_out: Mapping[str, str]) -> Settled:
        """Return what the ledger tells. Asks for the size of every file."""
        return Settled.of(ledger, self.extraction.plan, left_out)

    def do(self, ledger: Ledger, settled: Settled, recorder: Recorder) -> WorkOutcome:
        """Have workers make the pictures that are missing."""
        done = {*settled.entries, *settled.fallen}
        todo: dict[str, Json] = {
            chunk.name: [chunk.video, chunk.start, chunk.stop]
            for chunk in self.extraction.plan.chunks
            if chunk.name not in done
        }
        if todo:
            remove_table(ledger.folder / NAME)
        return self.extraction.work_through(
            todo, ledger, recorder, more={"decode": self.extraction.options.decode}
        )

    def finish(self, ledger: Ledger, settled: Settled) -> None:
        """Write the table, where nothing is left to do."""
        self._remove_unknown(ledger, settled)
        if settled.is_whole:
            plan = self.extraction.plan
            write_table(ledger.folder / NAME, settled.rows(), plan.indexes, plan.request.videos)

    def remarks(self, recorder: Recorder, outcome: Outcome) -> Remarks:
        """Return the largest step as the size of a batch, and the table where all of it is done."""
        return Remarks(
            setup=Setup(batch_size=max([step.frames for step in recorder.steps], default=1)),
            outputs=(NAME,) if outcome == "complete" else (),
            notes=recorder.notes_on_decoding(),
        )

    def _remove_unknown(self, ledger: Ledger, settled: Settled) -> None:
        """Remove pictures that a worker wrote right before it died, so that no table lists them."""
        plan = self.extraction.plan
        for chunk, number in settled.left_over():
            name = plan.request.videos[chunk.video].name
            index = plan.indexes[chunk.video]
            file = frame_file(self.extraction.options.pictures, name, index, number)
            with suppress(OSError):
                (ledger.folder / file).unlink()
