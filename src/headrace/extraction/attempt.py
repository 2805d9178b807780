"""A run of an extraction, whatever it extracts: the folder held, the work done, what it came to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from headrace.errors import HeadraceError
from headrace.extraction.ledger import Ledger
from headrace.extraction.recorder import Listening, Recorder
from headrace.extraction.request import Request
from headrace.extraction.workers import WorkOutcome
from headrace.profiling.findings.finding import counted
from headrace.profiling.machine import provenance
from headrace.profiling.provenance import Provenance, Scalar
from headrace.profiling.session import Outcome, Session
from headrace.profiling.setup import StartUpPart
from headrace.profiling.stages import Role
from headrace.profiling.usage import ProcessorShare
from headrace.runtime.clock import Clock


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """A run that can begin."""

    out: Path
    """The folder."""
    request: Request
    """What decides what comes out."""
    configuration: Mapping[str, Scalar]
    """All options, for the record."""
    command: tuple[str, ...]
    """The command line, for the record."""
    startup: tuple[StartUpPart, ...]
    """What was done until here."""
    retry: bool
    """Whether what ended two workers in an earlier run is tried again."""
    clock: Clock

    def run(self, job: "Job[State]", on_frames: Callable[[int], None]) -> "Extracted":
        """Do what is missing in the folder; an interrupt or an error ends it early.

        Raises:
            ConfigError: another run has the folder, or it holds another extraction.
        """
        made = provenance(self.configuration, self.command, self.clock)
        ledger = Ledger(self.out)
        with ledger.held(self.request):
            return self._run(job, ledger, made, on_frames)

    def _run(
        self,
        job: "Job[State]",
        ledger: Ledger,
        made: Provenance,
        on_frames: Callable[[int], None],
    ) -> "Extracted":
        share, recorder = ProcessorShare(), self._recorder(job, on_frames)
        before = job.settle(ledger, {})
        on_frames(before.came)
        left_out: dict[str, str] = {}

        def work() -> bool:
            left_out.update(ledger.quarantine().standing(retry=self.retry))
            done = job.do(ledger, job.settle(ledger, left_out), recorder)
            left_out.update({**done.fallen, **recorder.unreadable})
            return done.is_interrupted

        ended = Ended.of(work, lambda: job.finish(ledger, job.settle(ledger, left_out)))
        settled = job.settle(ledger, left_out)
        session = job.session(settled, recorder, made, ended)
        start_ns = recorder.listening.start_ns
        return Extracted(
            session=session.model_copy(
                update={
                    "wall_seconds": (self.clock.now_ns() - start_ns) / 1e9,
                    "startup": self.startup,
                    "others_cpu_share": share.of_others(),
                    "usage": share.used(),
                    "workers": recorder.workers(),
                    "stages": recorder.stages(job.workers),
                    "notes": (*session.notes, *_were_there(before.came, job.noun)),
                }
            ),
            came=settled.came,
            were_there=before.came,
            wanted=job.wanted,
        )

    def _recorder(self, job: "Job[Any]", on_frames: Callable[[int], None]) -> Recorder:
        return Recorder(
            Listening(
                places=job.places,
                roles=job.roles,
                start_ns=self.clock.now_ns(),
                clock=self.clock,
                on_frames=on_frames,
            )
        )


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
            return cls(outcome="failed", error=str(failure).splitlines()[0])


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


class HasCome(Protocol):
    """What became of what was asked for, in this run and those before it."""

    @property
    def came(self) -> int:
        """Pictures, or features, that lie in the folder."""


State = TypeVar("State", bound=HasCome)


class Job(Protocol[State]):
    """What is particular to one kind of extraction."""

    noun: ClassVar[str]
    """What comes out, one of it: `picture`."""
    roles: ClassVar[Mapping[str, Role]]
    """Part of the work → the role it plays."""

    @property
    def places(self) -> Mapping[int, int]:
        """Number of a video in the request → its place among those that could be opened."""

    @property
    def workers(self) -> int:
        """Processes that work."""

    @property
    def wanted(self) -> int:
        """How many pictures, or features, were asked for."""

    def settle(self, ledger: Ledger, left_out: Mapping[str, str]) -> State:
        """Return what became of all chunks; `left_out`: name of one that nobody does → why."""

    def do(self, ledger: Ledger, settled: State, recorder: Recorder) -> WorkOutcome:
        """Do the chunks that are not settled."""

    def finish(self, ledger: Ledger, settled: State) -> None:
        """Put together what there is, however the work ended."""

    def session(
        self, settled: State, recorder: Recorder, made: Provenance, ended: Ended
    ) -> Session:
        """Return the session of the run, without its times."""


def startup_parts(seconds: Mapping[str, float | None]) -> tuple[StartUpPart, ...]:
    """Return what passed before a run, by name; what is not known is left out."""
    return tuple(
        StartUpPart(name=name, seconds=max(0.0, each))
        for name, each in seconds.items()
        if each is not None
    )


def _were_there(came: int, noun: str) -> tuple[str, ...]:
    were = "was" if came == 1 else "were"
    return (f"{counted(came, noun)} {were} there already, from earlier runs",) if came else ()
