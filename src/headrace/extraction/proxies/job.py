"""What is particular to making proxies: one video at a time for each worker, and a list of them."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from headrace.decode.proxy_rows import LIST, write_rows
from headrace.extraction.attempt import Remarks
from headrace.extraction.extraction import Extraction
from headrace.extraction.ledger import Ledger
from headrace.extraction.proxies.plan import ProxyPlan
from headrace.extraction.proxies.request import ProxyOptions
from headrace.extraction.proxies.settled import Settled
from headrace.extraction.recorder import Recorder
from headrace.profiling.run_records import Setup
from headrace.profiling.session import Outcome
from headrace.profiling.stage_records import Role
from headrace.runtime.workers import WorkOutcome


@dataclass(frozen=True, kw_only=True, eq=False)
class ProxyJob:
    """A `Job`: proxies of videos, counted by their frames."""

    noun: ClassVar[str] = "frame"
    roles: ClassVar[Mapping[str, Role]] = {"decode": "decode", "encode": "sink", "compare": "sink"}
    """Of the parts that follow each other in one worker: `making.PARTS`."""
    extraction: Extraction[ProxyOptions, ProxyPlan]

    def settle(self, ledger: Ledger, left_out: Mapping[str, str]) -> Settled:
        """Return what the ledger tells. Asks for the size of every file."""
        return Settled.of(ledger, self.extraction.plan, left_out)

    def do(self, ledger: Ledger, settled: Settled, recorder: Recorder) -> WorkOutcome:
        """Have workers make the proxies that are missing."""
        done = {*settled.entries, *settled.fallen}
        longest_first = self.extraction.plan.longest_first
        todo = {chunk.name: chunk.video for chunk in longest_first if chunk.name not in done}
        if todo:
            with suppress(OSError):
                (ledger.folder / LIST).unlink()
        return self.extraction.work_through(todo, ledger, recorder)

    def finish(self, ledger: Ledger, settled: Settled) -> None:
        """Write the list of all proxies that there are, however the work ended."""
        write_rows(ledger.folder, (row for _, row in settled.rows()))

    def remarks(self, recorder: Recorder, outcome: Outcome) -> Remarks:
        """Return that frames went through one by one, and the list."""
        return Remarks(setup=Setup(batch_size=1), outputs=(LIST,))
