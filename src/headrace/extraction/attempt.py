"""What a run of an extraction has to do, whatever it extracts, and what it came to."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar

from headrace.errors import HeadraceError, first_line
from headrace.extraction.ledger import Ledger
from headrace.extraction.recorder import Recorder
from headrace.profiling.input_records import LostFrame
from headrace.profiling.run_records import Setup
from headrace.profiling.session import Outcome, Session
from headrace.profiling.stage_records import Role
from headrace.runtime.workers import WorkOutcome


class HasCome(Protocol):
    """What became of what was asked for, in this run and those before it."""

    @property
    def came(self) -> int:
        """Pictures, or features, that lie in the folder."""

    def lost(self) -> Iterator[LostFrame]:
        """Yield what did not come of videos that were opened, or only as FFmpeg shows it."""


State = TypeVar("State", bound=HasCome)


class Job(Protocol[State]):
    """What is particular to one kind of extraction while it runs."""

    noun: ClassVar[str]
    """What comes out, one of it: `picture`."""
    roles: ClassVar[Mapping[str, Role]]
    """Part of the work → the role it plays."""

    def settle(self, ledger: Ledger, left_out: Mapping[str, str]) -> State:
        """Return what became of all chunks; `left_out`: name of one that nobody does → why."""

    def do(self, ledger: Ledger, settled: State, recorder: Recorder) -> WorkOutcome:
        """Do the chunks that are not settled."""

    def finish(self, ledger: Ledger, settled: State) -> None:
        """Put together what there is, however the work ended."""

    def remarks(self, recorder: Recorder, outcome: Outcome) -> "Remarks":
        """Return what the record of the run says of this kind alone."""


@dataclass(frozen=True, kw_only=True)
class Remarks:
    """What the record of a run says of one kind of extraction."""

    setup: Setup
    outputs: tuple[str, ...]
    """Files that lie in the folder, beside what is made of each chunk."""
    notes: tuple[str, ...] = ()
    """What was decided or happened, in words."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a run ended."""

    outcome: Outcome
    error: str | None = None

    @classmethod
    def of(cls, work: Callable[[], bool], finish: Callable[[], None]) -> "Ended":
        """Run `work`, which says whether it was interrupted, and `finish` whatever it came to."""

        def finishing() -> bool:
            finish()
            return False

        ended = cls._of(work)
        finished = cls._of(finishing)
        return finished if ended.outcome == "complete" else ended

    @classmethod
    def _of(cls, work: Callable[[], bool]) -> "Ended":
        try:
            return cls(outcome="interrupted" if work() else "complete")
        except KeyboardInterrupt:
            return cls(outcome="interrupted")
        except HeadraceError as failure:
            return cls(outcome="failed", error=first_line(failure))


@dataclass(frozen=True, kw_only=True)
class Extracted:
    """What an extraction came to."""

    session: Session
    """Of this run alone; of a whole extraction, `lost` of it tells of earlier runs too."""
    came: int
    """Pictures, or features, that lie in the folder now."""
    were_there: int
    """Of these, from earlier runs."""
    wanted: int
    """That were asked for, of videos that could be opened."""

    @property
    def is_all(self) -> bool:
        """Whether all that was asked for came, concealed frames among it."""
        is_left_out = any(each.index is None for each in self.session.lost)
        has_come = self.came == self.wanted and not is_left_out
        return self.session.outcome == "complete" and has_come
