"""Loop that every run goes through: steps out of a feed, recorded as a session."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from headrace.errors import HeadraceError, first_line
from headrace.profiling.input_records import with_content, with_file_content
from headrace.profiling.machine import provenance
from headrace.profiling.provenance import Scalar
from headrace.profiling.recorder import OnRecord, Recorder
from headrace.profiling.run_records import StartUpPart
from headrace.profiling.session import Kind, Session
from headrace.profiling.stage_records import QueueRecord, StageRecord
from headrace.profiling.steps import Step
from headrace.runs.model_setup import computing_place
from headrace.runs.stages import STAGE_ROLES, Transfer
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.item import Span
from headrace.runtime.pipeline import Run


class Feed(Protocol):
    """What a run does, step by step: files, live sources, or a training."""

    def open(self) -> AbstractContextManager[object]:
        """Return the block around `steps`; it closes whatever it opens."""
        ...

    def steps(self) -> Iterator[Step]:
        """Yield each step when it has come out."""
        ...

    def finish(self) -> None:
        """Do what follows the last step, however the run ended."""
        ...

    def parts(self) -> dict[str, Any]:
        """Return the fields of the session that are the feed's own, as they are now."""
        ...


Made = TypeVar("Made", bound=Feed)


@dataclass(frozen=True, kw_only=True)
class AnyRunner(ABC, Generic[Made]):
    """One run, ready to start."""

    options: Any
    """What to run, of the kind that `prepare` takes."""
    command: tuple[str, ...] = ()
    """The command line, for the record; without credentials."""
    startup: tuple[StartUpPart, ...] = ()
    """What was done until here."""
    before_start: Callable[[], None] = field(default=lambda: None)
    """Called when all is ready, right before the clock of the run starts: to begin with others."""
    on_record: OnRecord | None = None
    """Called in the thread that runs with the record so far, now and then; None: never."""
    clock: Clock = SYSTEM_CLOCK

    def run(self, on_step: Callable[[Step], None] = lambda step: None) -> Session:
        """Run to the end, and record it; an interrupt or an error ends it early, recorded too.

        Args:
            on_step: Called in the caller's thread after each step, for progress.

        Returns:
            The session; its `outcome` is how the run ended, `error` why it failed. What was
            written until then is whole and can be used.

        Raises:
            ConfigError: a sink cannot be written.
        """
        with computing_place(self.options.compute):
            session = self._whole(on_step)
        # Digests cost reading the files, so that they come last.
        inputs, sources = with_content(session.inputs), with_file_content(session.sources)
        return session.model_copy(update={"inputs": inputs, "sources": sources})

    def _whole(self, on_step: Callable[[Step], None]) -> Session:
        """Return the record of all that is run, on the cores that were asked for."""
        return self._recorded(on_step)[0]

    def _recorded(self, on_step: Callable[[Step], None]) -> tuple[Session, HeadraceError | None]:
        """Run once; return its record, and what failed."""
        made = provenance(self.configuration(), self.command, self.clock)
        self.before_start()
        recorder = Recorder(
            self._kind,
            made,
            clock=self.clock,
            startup=self.startup,
            max_steps=self._most_steps,
            on_record=self.on_record,
        )
        feed = self._feed(recorder)
        with recorder.ending(self._words), feed.open():
            for step in feed.steps():
                recorder.add(step)
                on_step(step)
                recorder.checkpoint(feed.parts)
        feed.finish()
        return recorder.session(**feed.parts()), recorder.failure

    @property
    @abstractmethod
    def _kind(self) -> Kind:
        """Kind of its session."""

    @property
    def _most_steps(self) -> int | None:
        """Steps that are kept, the latest; None: all."""
        return None

    @abstractmethod
    def _feed(self, recorder: Recorder) -> Made:
        """Return what is run; `recorder` has just begun."""

    @property
    def out(self) -> Path:
        """Folder of its results."""
        folder: Path = self.options.output.out
        return folder

    def configuration(self) -> dict[str, Scalar]:
        """Return every option in force, as the session records it."""
        configuration: dict[str, Scalar] = self.options.configuration()
        return configuration

    def _words(self, failure: HeadraceError) -> str:
        """Return why the run failed, in a line."""
        return first_line(failure)


def timed_step(spans: tuple[Span, ...], number: int, start_ns: int, **known: Any) -> Step:
    """Return step `number` of a run that began at `start_ns`, from the work of its stages.

    Args:
        spans: Work of the stages, in order.
        number: 0-based.
        start_ns: By the clock of the run.
        known: Other fields of the step; `work_ms` replaces the work of the stages that it names.
    """
    started_ns, ended_ns = spans[0].start_ns, spans[-1].end_ns
    work_ms = {span.stage: span.work_ns / 1e6 for span in spans}
    return Step(
        step=number,
        started_ms=(started_ns - start_ns) / 1e6,
        work_ms=work_ms | known.pop("work_ms", {}),
        total_ms=(ended_ns - started_ns) / 1e6,
        **known,
    )


def line_records(
    run: Run, carriers: dict[str, Transfer]
) -> tuple[tuple[StageRecord, ...], tuple[QueueRecord, ...]]:
    """Return what every stage and queue of a pipeline did, in the order the frames take.

    Args:
        run: The pipeline that ran.
        carriers: Name of a stage -> what carries to a device there.
    """
    stages = tuple(
        StageRecord.of(stage, STAGE_ROLES[stage.name], **carrier.record)
        if (carrier := carriers.get(stage.name))
        else StageRecord.of(stage, STAGE_ROLES[stage.name])
        for stage in run.stages()
    )
    fed = [*(stage.name for stage in stages[1:]), None]
    queues = zip(run.queues(), fed, strict=True)
    return stages, tuple(QueueRecord.of(queue, feeds=stage) for queue, stage in queues)
