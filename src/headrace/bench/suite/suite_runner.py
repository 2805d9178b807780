"""Suite runner: each benchmark in its own process, one after the other."""

import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from headrace.bench.benchmark import Context, Registered, make_folder, options_of, write_benchmark
from headrace.bench.config import indexes_of
from headrace.bench.registry import BENCHMARKS
from headrace.bench.suite.suite_selection import (
    BenchmarkOutcome,
    Choice,
    Planned,
    SuiteConfig,
    SuiteRecord,
    config_of,
    plan_suite,
    read_record,
    read_suite,
)
from headrace.errors import HeadraceError
from headrace.profiling.machine import provenance
from headrace.runtime.child_process import ChildFunction, CompletedChild, FunctionSpec, Json
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.supervisor import run_children
from headrace.video.content_digest import content_digest

_TIMEOUT_SECONDS: Final = 3600.0
"""Time limit of a benchmark; longer means hung."""
_GRACE_SECONDS: Final = 15.0
"""Time for an interrupted benchmark to end its processes."""
_LINES: Final = 6
"""Last output lines kept of a failed benchmark."""


@dataclass(frozen=True, kw_only=True)
class SuiteObserver:
    """Callbacks on the progress of a suite."""

    on_begin: Callable[[Planned, int, int], None] = lambda planned, number, of: None
    """Called with the benchmark that starts, its number from 1, and the total."""
    on_progress: Callable[[str, int, int], None] = lambda what, done, of: None
    """Called with the starting step's name, steps done, and total steps (0: unknown)."""
    on_end: Callable[[BenchmarkOutcome, int, int], None] = lambda result, number, of: None
    """Called with the outcome, its number from 1, and the total."""


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Planned benchmarks and output folder: see `prepare_suite`."""

    config: SuiteConfig
    folder: Path
    planned: tuple[Planned, ...]
    record: SuiteRecord
    """Record before anything is measured."""
    measure: ChildFunction
    """Function that measures one benchmark in a child process, as `measure_one` does."""

    @property
    def due(self) -> tuple[Planned, ...]:
        """Benchmarks to measure, in order; benchmarks that may disturb others come last."""
        due = [planned for planned in self.planned if planned.is_due]
        return tuple(sorted(due, key=lambda planned: planned.benchmark.terms.goes_last))

    @property
    def seconds(self) -> float:
        """Estimated seconds on two cores."""
        return sum(planned.benchmark.terms.seconds for planned in self.due)

    def run(self, observer: SuiteObserver, clock: Clock = SYSTEM_CLOCK) -> tuple[SuiteRecord, bool]:
        """Measure all due benchmarks; return the record, and whether it was interrupted.

        A failed benchmark is recorded with its message, and the others continue. The record is
        written after each benchmark. Ctrl-C ends the running benchmark and skips the rest.

        Raises:
            ConfigError: the folder cannot be written.
        """
        make_folder(self.folder)
        record, due, interrupted = self.record, self.due, list[bool]()
        try:
            for number, planned in enumerate(due, 1):
                observer.on_begin(planned, number, len(due))
                ending = self._measure(planned, observer, lambda: interrupted.append(True), clock)
                result = self._outcome(planned, ending, was_stopped=bool(interrupted))
                record = record.with_outcome(result)
                record.save(self.folder)
                observer.on_end(result, number, len(due))
                if interrupted:
                    break
        except KeyboardInterrupt:
            interrupted.append(True)
        record.save(self.folder)
        return record, bool(interrupted)

    def _measure(
        self,
        planned: Planned,
        observer: SuiteObserver,
        on_interrupt: Callable[[], None],
        clock: Clock,
    ) -> CompletedChild:
        def on_message(name: str, message: Json) -> None:
            match message:
                case [str(what), int(done), int(of)]:
                    observer.on_progress(what, done, of)

        call = FunctionSpec(
            name=planned.benchmark.name,
            function=self.measure,
            argument={
                "benchmark": planned.benchmark.name,
                "videos": list(self.config.videos),
                "model": self.config.model,
                "folder": str(self.folder),
                "command": list(self.record.provenance.command),
            },
            timeout_seconds=_TIMEOUT_SECONDS,
        )
        [ending] = run_children(
            [call],
            on_message=on_message,
            on_interrupt=on_interrupt,
            grace_seconds=_GRACE_SECONDS,
            clock=clock,
        )
        return ending

    def _outcome(
        self, planned: Planned, ending: CompletedChild, *, was_stopped: bool
    ) -> BenchmarkOutcome:
        """Return the outcome of a benchmark whose process has ended."""
        update: dict[str, Any] = {"outcome": "measured", "why": None, "seconds": ending.seconds}
        if not ending.has_succeeded and was_stopped:
            update |= {"outcome": "interrupted", "why": "it was interrupted"}
        elif not ending.has_succeeded:
            # The reason follows the name of the benchmark.
            why = ending.error or ending.describe().removeprefix(f"{ending.name} ")
            lines = tuple(ending.tail.rstrip().splitlines()[-_LINES:])
            update |= {"outcome": "failed", "why": why, "last_lines": lines}
        elif ending.result is not None:
            update |= {"outcome": "failed", "why": str(ending.result)}
        elif isinstance(record := read_record(planned.benchmark, self.folder), str):
            update |= {"outcome": "failed", "why": record}
        else:
            update["created"] = record.provenance.created
        return planned.result.model_copy(update=update)


def prepare_suite(
    benchmarks: Sequence[Registered],
    config: SuiteConfig,
    choice: Choice,
    *,
    folder: Path,
    command: Sequence[str],
    measure: ChildFunction,
    clock: Clock = SYSTEM_CLOCK,
) -> Suite:
    """Return a suite of videos, ready to run; reuses existing results in `folder`.

    Reads the videos; writes only their indexes.

    Raises:
        ConfigError: a chosen benchmark or the model is unknown, or the folder holds a damaged
            record.
        BackendError: the device is missing.
        MediaError: a video cannot be opened.
    """
    choice.check([benchmark.name for benchmark in benchmarks])
    indexes_of(config.videos, None)
    config.check()
    contents = tuple(content_digest(Path(video)) for video in config.videos)
    chosen = {"only": choice.only or None, "skip": choice.skip or None}
    created = provenance({**options_of(config), **chosen}, command, clock)
    planned = plan_suite(
        benchmarks,
        config,
        choice,
        folder=folder,
        earlier=None if choice.again and not choice.only + choice.skip else read_suite(folder),
        contents=contents,
        provenance=created,
    )
    record = SuiteRecord(
        provenance=created,
        videos=config.videos,
        contents=contents,
        chapters=tuple(row.result for row in planned),
    )
    return Suite(config=config, folder=folder, planned=planned, record=record, measure=measure)


def measure_registered(order: Json, send: Callable[[Json], None]) -> Json:
    """Measure a benchmark of the registry; see `measure_one`."""
    return measure_one(BENCHMARKS, order, send)


def measure_one(benchmarks: Sequence[Registered], order: Any, send: Callable[[Json], None]) -> Json:
    """Measure one benchmark into its files; return the error message, None on success.

    Runs in a child process: SIGTERM ends it like Ctrl-C. Sends the starting step's name, steps done
    and total steps before each repetition.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    benchmark = next(known for known in benchmarks if known.name == order["benchmark"])
    folder = Path(order["folder"])
    context = Context(
        command=order["command"],
        on_progress=lambda what, done, of: send([what, done, of]),
        out=folder,
    )
    try:
        suite_config = SuiteConfig(videos=tuple(order["videos"]), **order["model"])
        config = config_of(benchmark, suite_config)
        if isinstance(config, str):
            return config
        record = benchmark.run(config, context)
        write_benchmark(benchmark, record, benchmark.page(record), folder)
    except HeadraceError as error:
        return str(error)
    return None
