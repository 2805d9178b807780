"""Launch: several runs with a common start, each in its own process."""

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from shutil import which
from typing import Final, Literal

from headrace.errors import BackendError, ConfigError
from headrace.profiling.machine import provenance
from headrace.profiling.provenance import Record, Text
from headrace.profiling.resource_usage import ProcessorShare
from headrace.profiling.session import Session, Step
from headrace.redaction import masked
from headrace.runs.launch.launch_record import (
    Figures,
    LaunchRecord,
    LaunchWorkerRecord,
    worker_exit,
)
from headrace.runs.output_folder import prepare_folder
from headrace.runtime.child_process import LAUNCH_VARIABLE, CommandSpec, CompletedChild, Json
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.posix import check_posix
from headrace.runtime.spawned_processes import Participant, Rendezvous
from headrace.runtime.supervisor import run_children


class WorkerConfig(Record):
    """Configuration of one worker."""

    name: str
    arguments: tuple[Text, ...]
    """Arguments of `headrace run`, without the output folder."""
    nsys: bool = False
    """Whether NVIDIA Nsight Systems profiles it."""


class LaunchConfig(Record):
    """Configuration of a launch."""

    out: Text | None = None
    """Output folder, with one subfolder per worker."""
    workers: tuple[WorkerConfig, ...]


State = Literal["ready", "running"]
_PROGRESS_MS: Final = 250.0
"""Min milliseconds between two progress messages."""


@dataclass(frozen=True, kw_only=True)
class WorkerEvent:
    """State of one worker."""

    worker: str
    state: State
    frames: int = 0
    """Completed frames so far."""
    seconds: float = 0.0
    """Duration of the run so far."""


class LaunchedWorker:
    """Worker end of a launch: waits for the common start, and sends progress."""

    def __init__(self, address: str) -> None:
        """Connect to the launch at `address`."""
        self._participant = Participant(address)
        self._frames, self._sent_ms = 0, 0.0

    def wait(self) -> None:
        """Send that the worker is ready, and wait for the common start."""
        self._participant.send({"ready": os.getpid()})
        self._participant.send({"began": self._participant.wait()})

    def add(self, step: Step) -> None:
        """Add a completed step; send the progress at intervals."""
        if step.step == 0:  # also after a restart with smaller batches
            self._frames, self._sent_ms = 0, 0.0
        self._frames += step.frames
        if step.ended_ms >= self._sent_ms + _PROGRESS_MS:
            self._sent_ms = step.ended_ms
            with suppress(ConfigError):  # the run continues without its launch
                self._participant.send({"frames": self._frames, "seconds": step.ended_ms / 1e3})


class LaunchAborted(Exception):  # noqa: N818 - not an error: it ends the wait of ready workers
    """Raised to stop all workers, because one cannot start."""


class LaunchMonitor:
    """Monitor of messages and ends of workers. Not thread-safe."""

    def __init__(self, launch: "Launch", rendezvous: Rendezvous) -> None:
        """Start without messages."""
        self.endings: dict[str, CompletedChild] = {}
        self.pids: dict[str, int] = {}
        """Process ids of the workers that are ready."""
        self.ready_seconds: dict[str, float] = {}
        self.began_ns: dict[str, int] = {}
        self.is_interrupted = False
        self._launch = launch
        self._names = [worker.name for worker in launch.config.workers]
        self._rendezvous = rendezvous
        self._started_ns = launch.clock.now_ns()
        self._is_open = False
        self._broken: set[str] = set()

    @property
    def broken(self) -> tuple[str, ...]:
        """Workers that failed before the start, in the order of the configuration."""
        return tuple(name for name in self._names if name in self._broken)

    def poll(self) -> None:
        """Handle new messages; start the runs when all workers are ready.

        Raises:
            LaunchAborted: a worker cannot start, and the others are ready or ended.
        """
        for name, message in self._rendezvous.receive():
            self._on_message(name, message)
        if self._is_open or self.is_interrupted:
            return
        if all(name in self.pids or name in self.endings for name in self._names):
            self._is_open = True
            if not self._broken:
                self._launch.on_start()
                self._rendezvous.open()
            elif len(self.endings) < len(self._names):
                raise LaunchAborted

    def on_exit(self, ending: CompletedChild) -> None:
        """Handle the end of a worker."""
        for name, message in self._rendezvous.receive():
            self._on_message(name, message)
        self.endings[ending.name] = ending
        is_before_start = not self._is_open and not self.is_interrupted
        if is_before_start and not ending.has_succeeded:
            self._broken.add(ending.name)
        self._launch.on_end(ending)

    def on_interrupt(self) -> None:
        """Handle an interrupt of the launch."""
        self.is_interrupted = True

    def began_ms(self, name: str) -> float | None:
        """Return the delay of a worker's start after the first start; None: not started."""
        if name not in self.began_ns:
            return None
        return (self.began_ns[name] - min(self.began_ns.values())) / 1e6

    def _on_message(self, name: str, message: Json) -> None:
        event = WorkerEvent(worker=name, state="running")
        match message:
            case {"ready": int(pid)}:
                self.pids[name] = pid
                self.ready_seconds[name] = (self._launch.clock.now_ns() - self._started_ns) / 1e9
                event = WorkerEvent(worker=name, state="ready")
            case {"began": int(at_ns)}:
                self.began_ns[name] = at_ns
            case {"frames": int(frames), "seconds": float(seconds)}:
                event = replace(event, frames=frames, seconds=seconds)
            case _:
                return
        self._launch.on_event(event)


_GRACE_SECONDS: Final = 30.0
"""Seconds for an interrupted worker to end its step and write its folder."""
_NSYS: Final = ("nsys", "profile", "--trace=cuda,nvtx,osrt", "--force-overwrite=true")
_SESSION: Final = "session.json"


@dataclass(frozen=True, kw_only=True)
class Launch:
    """A launch, ready to start."""

    config: LaunchConfig
    out: Path
    """Output folder; created if missing."""
    program: tuple[str, ...]
    """Command of a worker, without its arguments."""
    environment: Mapping[str, str]
    """Environment variables of the workers."""
    command: tuple[str, ...] = ()
    """The command line, for the record."""
    on_event: Callable[[WorkerEvent], None] = lambda event: None
    """Called on each message of a worker."""
    on_start: Callable[[], None] = lambda: None
    """Called at the common start."""
    on_end: Callable[[CompletedChild], None] = lambda ending: None
    """Called after the end of a worker."""
    clock: Clock = SYSTEM_CLOCK

    def check(self) -> None:
        """Check the output folders and nsys. Starts no process.

        Raises:
            ConfigError: a folder cannot be written.
            BackendError: a worker needs nsys, which is not installed; or this system is Windows.
        """
        check_posix("a launch of several runs")
        profiled = [worker.name for worker in self.config.workers if worker.nsys]
        if profiled and which(_NSYS[0], path=self.environment.get("PATH")) is None:
            raise BackendError(
                f"{', '.join(profiled)}: nsys is requested but not installed (no `nsys` on PATH); "
                "install NVIDIA Nsight Systems, or leave out `nsys`"
            )
        for worker in self.config.workers:
            prepare_folder(self.out / worker.name)

    def run(self, *, is_dry: bool = False) -> LaunchRecord:
        """Run all workers to the end; on Ctrl-C they stop and write their folders.

        The workers start together, after all of them are loaded. If one cannot start, none starts.

        Args:
            is_dry: Whether the workers run with `--dry-run`.

        Raises:
            KeyboardInterrupt: second Ctrl-C; all workers are killed.
        """
        origin = provenance({"out": str(self.out)}, self.command, self.clock)
        share = ProcessorShare()
        with tempfile.TemporaryDirectory(prefix="headrace-launch-") as folder:
            rendezvous = Rendezvous(Path(folder), self.clock)
            monitor = LaunchMonitor(self, rendezvous)
            children = [
                self._child_spec(worker, rendezvous, Path(folder), is_dry)
                for worker in self.config.workers
            ]
            # After an abort, the record has the error of the worker that could not start.
            with suppress(LaunchAborted):
                run_children(
                    children,
                    on_end=monitor.on_exit,
                    on_look=monitor.poll,
                    on_interrupt=monitor.on_interrupt,
                    grace_seconds=_GRACE_SECONDS,
                    clock=self.clock,
                )
        others = share.of_others()
        workers = tuple(
            self._record(worker, monitor, others, is_dry=is_dry) for worker in self.config.workers
        )
        return LaunchRecord(provenance=origin, workers=workers, others_cpu_share=others)

    def _arguments(self, worker: WorkerConfig) -> tuple[str, ...]:
        return (*worker.arguments, "--out", str(self.out / worker.name))

    def _child_spec(
        self, worker: WorkerConfig, rendezvous: Rendezvous, folder: Path, is_dry: bool
    ) -> CommandSpec:
        dry = ("--dry-run",) if is_dry else ()
        profiler: tuple[str, ...] = ()
        if worker.nsys and not is_dry:
            profiler = (*_NSYS, f"--output={self.out / worker.name / 'nsys'}")
        return CommandSpec(
            name=worker.name,
            arguments=(*profiler, *self.program, *self._public_arguments(worker, folder), *dry),
            environment={**self.environment, LAUNCH_VARIABLE: rendezvous.address(worker.name)},
        )

    def _public_arguments(self, worker: WorkerConfig, folder: Path) -> Iterator[str]:
        """Yield the arguments of a worker without credentials: every user can list processes.

        Sources with credentials are written to files in `folder`, which only this user can read.
        """
        arguments = self._arguments(worker)
        sources = list(takewhile(lambda argument: not argument.startswith("-"), arguments))
        for number, source in enumerate(sources):
            if source == masked(source):
                yield source
            else:
                file = folder / f"{worker.name}-{number}.streams"
                file.write_text(f"{source}\n", encoding="utf-8")
                yield str(file)
        yield from arguments[len(sources) :]

    def _record(
        self, worker: WorkerConfig, monitor: LaunchMonitor, others: float | None, *, is_dry: bool
    ) -> LaunchWorkerRecord:
        name, folder = worker.name, self.out / worker.name
        ending = monitor.endings.get(name)
        session = None if is_dry else _load_session(folder, monitor.pids.get(name))
        return LaunchWorkerRecord(
            **worker_exit(
                session,
                ending,
                has_begun=name in monitor.began_ns and not is_dry,
                is_interrupted=monitor.is_interrupted,
                broken=monitor.broken,
                folder=folder,
                is_dry=is_dry,
            ),
            name=name,
            folder=str(folder),
            command=("headrace", "run", *self._arguments(worker)),
            exit_code=ending.exit_code if ending else None,
            ready_seconds=monitor.ready_seconds.get(name),
            began_ms=monitor.began_ms(name),
            figures=Figures.of(session, others) if session else None,
        )


def _load_session(folder: Path, pid: int | None) -> Session | None:
    """Return the session of process `pid`; None if it is missing or of an earlier run."""
    try:
        session = Session.load(folder / _SESSION)
    except ConfigError:
        return None
    return session if pid is not None and session.provenance.pid == pid else None
