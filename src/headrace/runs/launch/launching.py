"""Several runs at once: each in a process of its own, all begun at one moment."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from shutil import which
from typing import Final, Literal

from headrace.errors import BackendError, ConfigError
from headrace.profiling.machine import provenance
from headrace.profiling.resource_usage import ProcessorShare
from headrace.profiling.session import Session
from headrace.redaction import masked
from headrace.runs.launch.launch_config import LaunchConfig, WorkerConfig
from headrace.runs.launch.launch_record import Figures, LaunchRecord, LaunchWorkerRecord, end_of
from headrace.runs.outputs import claim
from headrace.runtime.child_spec import LAUNCH_VARIABLE, CommandSpec, CompletedChild, Json
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.rank_processes import Rendezvous
from headrace.runtime.supervisor import run_children

State = Literal["loading", "ready", "running", "over"]


@dataclass(frozen=True, kw_only=True)
class WorkerEvent:
    """How one worker is."""

    worker: str
    state: State
    frames: int = 0
    """That came out so far."""
    seconds: float = 0.0
    """They took."""


def ready(pid: int) -> Json:
    """It is loaded and warm."""
    return {"ready": pid}


def began(at_ns: int) -> Json:
    """It goes on, at this moment of the clock."""
    return {"began": at_ns}


def progress(frames: int, seconds: float) -> Json:
    """So many frames came out in so many seconds."""
    return {"frames": frames, "seconds": seconds}


class LaunchAborted(Exception):  # noqa: N818 - no error: it ends the wait of those that are ready
    """A worker cannot begin, so none does."""


class LaunchMonitor:
    """What the workers have told so far. Not thread-safe."""

    def __init__(
        self,
        names: Sequence[str],
        place: Rendezvous,
        clock: Clock,
        on_news: Callable[[WorkerEvent], None],
        on_begin: Callable[[], None],
        on_end: Callable[[CompletedChild], None],
    ) -> None:
        """Nobody has told anything yet."""
        self.endings: dict[str, CompletedChild] = {}
        self.pids: dict[str, int] = {}
        """Of those that are ready or were."""
        self.ready_seconds: dict[str, float] = {}
        self.began_ns: dict[str, int] = {}
        self.is_interrupted = False
        self._names = names
        self._place = place
        self._clock = clock
        self._started_ns = clock.now_ns()
        self._is_open = False
        self._broken: set[str] = set()
        self._on_news = on_news
        self._on_begin = on_begin
        self._on_end = on_end

    @property
    def broken(self) -> tuple[str, ...]:
        """Return those that ended badly before the start, in the order of the names."""
        return tuple(name for name in self._names if name in self._broken)

    def look(self) -> None:
        """Hear what is new, and open the start when all are there.

        Raises:
            LaunchAborted: all are there or have ended, and one of them cannot begin.
        """
        for name, message in self._place.receive():
            self._heard(name, message)
        if self._is_open or self.is_interrupted:
            return
        if all(name in self.pids or name in self.endings for name in self._names):
            self._is_open = True
            if not self._broken:
                self._on_begin()
                self._place.open()
            elif len(self.endings) < len(self._names):
                raise LaunchAborted

    def ended(self, ending: CompletedChild) -> None:
        """Take in how one ended."""
        for name, message in self._place.receive():
            self._heard(name, message)
        self.endings[ending.name] = ending
        is_before = not self._is_open and not self.is_interrupted
        if is_before and not ending.has_succeeded:
            self._broken.add(ending.name)
        self._on_end(ending)

    def interrupted(self) -> None:
        """All are asked to end."""
        self.is_interrupted = True

    def began_ms(self, name: str) -> float | None:
        """Return when one began, after the first one did; None where it did not."""
        if name not in self.began_ns:
            return None
        return (self.began_ns[name] - min(self.began_ns.values())) / 1e6

    def _heard(self, name: str, message: Json) -> None:
        match message:
            case {"ready": int(pid)}:
                self.pids[name] = pid
                self.ready_seconds[name] = (self._clock.now_ns() - self._started_ns) / 1e9
                self._on_news(WorkerEvent(worker=name, state="ready"))
            case {"began": int(at_ns)}:
                self.began_ns[name] = at_ns
                self._on_news(WorkerEvent(worker=name, state="running"))
            case {"frames": int(frames), "seconds": float(seconds)}:
                news = WorkerEvent(worker=name, state="running", frames=frames, seconds=seconds)
                self._on_news(news)


_GRACE_SECONDS: Final = 30.0
"""For a worker that was interrupted to end its step and write its folder."""
_NSYS: Final = ("nsys", "profile", "--trace=cuda,nvtx,osrt", "--force-overwrite=true")
_SESSION: Final = "session.json"


@dataclass(frozen=True, kw_only=True)
class Launch:
    """A launch, ready to start."""

    config: LaunchConfig
    out: Path
    """Folder of the results; made when missing."""
    program: tuple[str, ...]
    """What runs one worker, without its arguments."""
    environment: Mapping[str, str]
    """The variables of the workers."""
    command: tuple[str, ...] = ()
    """The command line, for the record."""
    on_news: Callable[[WorkerEvent], None] = lambda news: None
    """Called when a worker has told something."""
    on_begin: Callable[[], None] = lambda: None
    """Called when all are ready and begin."""
    on_end: Callable[[CompletedChild], None] = lambda ending: None
    """Called when a worker has ended."""
    clock: Clock = SYSTEM_CLOCK

    def check(self) -> None:
        """Check what can be checked before a process is started.

        Raises:
            ConfigError: the folder cannot be written.
            BackendError: a worker is to run under nsys, and it is not installed.
        """
        asking = [each.name for each in self.config.workers if each.nsys]
        if asking and which(_NSYS[0], path=self.environment.get("PATH")) is None:
            raise BackendError(
                f"{', '.join(asking)}: nsys is asked for and is not installed (no `nsys` on PATH); "
                "install NVIDIA Nsight Systems, or leave out `nsys`"
            )
        for worker in self.config.workers:
            claim(self.out / worker.name)

    def run(self, *, is_dry: bool = False) -> LaunchRecord:
        """Run all to their ends; Ctrl-C stops all, and they write their folders.

        They load first; when all are ready, they begin at one moment. Where one cannot, none does.

        Args:
            is_dry: Each only checks what it would do.

        Raises:
            KeyboardInterrupt: a second one; all have been ended.
        """
        made = provenance({"out": str(self.out)}, self.command, self.clock)
        share = ProcessorShare()
        with tempfile.TemporaryDirectory(prefix="headrace-launch-") as folder:
            place = Rendezvous(Path(folder), self.clock)
            names = [worker.name for worker in self.config.workers]
            watch = LaunchMonitor(
                names, place, self.clock, self.on_news, self.on_begin, self.on_end
            )
            children = [
                self._child(worker, place, Path(folder), is_dry) for worker in self.config.workers
            ]
            # Called off: the record says who could not begin, and that the others did not.
            with suppress(LaunchAborted):
                run_children(
                    children,
                    on_end=watch.ended,
                    on_look=watch.look,
                    on_interrupt=watch.interrupted,
                    grace_seconds=_GRACE_SECONDS,
                    clock=self.clock,
                )
        others = share.of_others()
        workers = tuple(
            self._record(worker, watch, others, is_dry=is_dry) for worker in self.config.workers
        )
        return LaunchRecord(provenance=made, workers=workers, others_cpu_share=others)

    def _arguments(self, worker: WorkerConfig) -> tuple[str, ...]:
        return (*worker.arguments, "--out", str(self.out / worker.name))

    def _child(
        self, worker: WorkerConfig, place: Rendezvous, folder: Path, is_dry: bool
    ) -> CommandSpec:
        dry = ("--dry-run",) if is_dry else ()
        under: tuple[str, ...] = ()
        if worker.nsys and not is_dry:
            under = (*_NSYS, f"--output={self.out / worker.name / 'nsys'}")
        return CommandSpec(
            name=worker.name,
            arguments=(*under, *self.program, *self._unseen(worker, folder), *dry),
            environment={**self.environment, LAUNCH_VARIABLE: place.address(worker.name)},
        )

    def _unseen(self, worker: WorkerConfig, folder: Path) -> Iterator[str]:
        """Yield the arguments of a worker, which everybody on the machine can list.

        Sources with secrets go into lists in `folder`, which only this user can read.
        """
        arguments = self._arguments(worker)
        sources = list(takewhile(lambda each: not each.startswith("-"), arguments))
        for number, source in enumerate(sources):
            if source == masked(source):
                yield source
            else:
                file = folder / f"{worker.name}-{number}.streams"
                file.write_text(f"{source}\n", encoding="utf-8")
                yield str(file)
        yield from arguments[len(sources) :]

    def _record(
        self, worker: WorkerConfig, watch: LaunchMonitor, others: float | None, *, is_dry: bool
    ) -> LaunchWorkerRecord:
        name, folder = worker.name, self.out / worker.name
        ending = watch.endings.get(name)
        session = None if is_dry else _session(folder, watch.pids.get(name))
        end = end_of(
            session,
            ending,
            has_begun=is_dry or name in watch.began_ns,
            is_interrupted=watch.is_interrupted,
            broken=watch.broken,
            folder=folder,
            is_dry=is_dry,
        )
        return LaunchWorkerRecord(
            name=name,
            folder=str(folder),
            command=("headrace", "run", *self._arguments(worker)),
            outcome=end.outcome,
            error=end.error,
            last_lines=end.last_lines,
            exit_code=ending.exit_code if ending else None,
            ready_seconds=watch.ready_seconds.get(name),
            began_ms=watch.began_ms(name),
            figures=Figures.of(session, others) if session else None,
        )


def _session(folder: Path, pid: int | None) -> Session | None:
    """The session of the process `pid`; None where it wrote none, but an earlier run may have."""
    try:
        found = Session.load(folder / _SESSION)
    except ConfigError:
        return None
    return found if pid is not None and found.provenance.pid == pid else None
