"""Pool of worker processes over a list of chunks; workers that die are replaced.

A worker claims the next free chunk, reports it, and works on it; it may have several chunks in
work. A worker that dies (a crash inside a decoder, a hang, no memory) does not end others. The
chunks that it was decoding are tried again, each in its own worker. If a chunk's second worker dies
too, the chunk is poisoned: it is skipped, with the reason.

`run_chunks` is the supervisor; `iter_chunks` and the following functions run in the workers.
"""

import faulthandler
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from headrace.atomic_file import write_whole
from headrace.errors import StageError
from headrace.runtime.child_process import KILLED, ChildFunction, CompletedChild, FunctionSpec, Json
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.supervisor import iter_messages, run_children

_MAX_DEATHS: Final = 2
"""A chunk is poisoned after this many dead workers; the first may have had another cause."""
_GRACE_SECONDS: Final = 2.0
"""Time between SIGTERM and SIGKILL of a worker."""
_UNDONE: Final = "{}chunks.json"
"""Name of the file with the chunks for workers."""


@dataclass(frozen=True, kw_only=True)
class PoolTask:
    """Work of the workers on chunks."""

    function: ChildFunction
    """Run in each worker with `argument`; it reads `iter_chunks` or `iter_claimed_chunks`."""
    argument: Mapping[str, Json]
    claims: Path
    """Folder of the claims of this run."""
    workers: int
    stall_seconds: float
    """A worker that sends nothing for this long is ended as hanging."""


@dataclass(kw_only=True)
class PoolResult:
    """Result of a run over chunks."""

    poisoned: dict[str, str] = field(default_factory=dict)
    """Chunk name → why it is poisoned."""
    is_interrupted: bool = False

    def interrupt(self) -> None:
        """Record a Ctrl-C."""
        self.is_interrupted = True


@dataclass(frozen=True, kw_only=True)
class PoolRound:
    """A round of workers over some chunks."""

    work: PoolTask
    chunks: Mapping[str, Json]
    """Chunk name → its payload for workers."""
    alone: bool
    """Whether each chunk gets its own worker."""
    on_message: Callable[[str, Json], None]
    """Called with a worker's name and each message."""
    on_interrupt: Callable[[], None]
    """Called at Ctrl-C; then the workers end."""
    clock: Clock


class PoolBackend(Protocol):
    """Runs rounds: `run_workers`, or an equivalent for many machines."""

    def __call__(self, pool_round: PoolRound, /) -> list[CompletedChild]:
        """Run a round; return the result of each worker."""


def run_chunks(
    work: PoolTask,
    chunks: Mapping[str, Json],
    *,
    on_message: Callable[[str, str, Json], None] = lambda worker, chunk, message: None,
    on_done: Callable[[str], None] = lambda chunk: None,
    on_poisoned: Callable[[str, str], None] = lambda chunk, reason: None,
    run: PoolBackend | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> PoolResult:
    """Run workers over `chunks`, in this order, until each is done or poisoned.

    Args:
        work: Work of the workers.
        chunks: Chunk name → its payload for workers.
        on_message: Called with the names of a worker and a chunk, and a message about the chunk. If
            it raises, the workers are ended and the exception is raised.
        on_done: Called with the name of each finished chunk.
        on_poisoned: Called with the name of each poisoned chunk, and the reason.
        run: Runs a round of workers; None: `run_workers`, on this machine.
        clock: Clock of the time limits.

    Raises:
        StageError: workers die before they start a chunk.
    """
    outcome, deaths = PoolResult(), Counter[str]()
    remaining = dict(chunks)
    while remaining:
        # Suspects wait until the other chunks are done; then each gets its own worker.
        unsuspected = {name: payload for name, payload in remaining.items() if not deaths[name]}
        progress = _Progress(on_message, on_done)
        endings = (run or run_workers)(
            PoolRound(
                work=work,
                chunks=unsuspected or remaining,
                alone=not unsuspected,
                on_message=progress.receive,
                on_interrupt=outcome.interrupt,
                clock=clock,
            )
        )
        dead = [ending for ending in endings if not ending.has_succeeded]
        if outcome.is_interrupted:
            break
        if not progress.done and not any(progress.in_work.values()):
            reason = dead[0].describe() if dead else "workers ended without any work"
            raise StageError(f"{reason}; no chunk was started", stage="workers")
        for ending in dead:
            for chunk in progress.suspects(ending.name):
                deaths[chunk] += 1
                if deaths[chunk] >= _MAX_DEATHS:
                    is_decoded = progress.is_decoded(chunk)
                    outcome.poisoned[chunk] = _explain_death(ending, work, is_decoded=is_decoded)
                    on_poisoned(chunk, outcome.poisoned[chunk])
        for chunk in (*progress.done, *outcome.poisoned):
            remaining.pop(chunk, None)
    return outcome


class _Progress:
    """Handles the messages of a round's workers; knows their chunks in work."""

    def __init__(
        self, on_message: Callable[[str, str, Json], None], on_done: Callable[[str], None]
    ) -> None:
        self.done: set[str] = set()
        self.in_work: dict[str, dict[str, bool]] = {}
        """Worker → chunk in work → whether it is decoded."""
        self._on_message, self._on_done = on_message, on_done

    def receive(self, worker: str, message: Json) -> None:
        assert isinstance(message, list)
        kind, chunk, payload = message
        assert isinstance(chunk, str)
        in_work = self.in_work.setdefault(worker, {})
        if kind in (STARTED, DECODED):
            in_work[chunk] = kind == DECODED
        elif kind == MESSAGE:
            self._on_message(worker, chunk, payload)
        else:
            self.done.add(chunk)
            del in_work[chunk]
            self._on_done(chunk)

    def suspects(self, worker: str) -> list[str]:
        """Return the chunks that may have killed a worker: being decoded, else all in work."""
        in_work = self.in_work.get(worker, {})
        return [chunk for chunk, is_decoded in in_work.items() if not is_decoded] or list(in_work)

    def is_decoded(self, chunk: str) -> bool:
        """Return whether an unfinished chunk was decoded."""
        return any(in_work.get(chunk, False) for in_work in self.in_work.values())


def run_workers(pool_round: PoolRound) -> list[CompletedChild]:
    """Run a round of workers on this machine: a `PoolBackend`."""
    work, chunks = pool_round.work, pool_round.chunks
    for path in work.claims.iterdir():
        path.unlink()
    if pool_round.alone:
        workers = [
            _worker_spec(work, f"worker of {name}", {name: payload})
            for name, payload in chunks.items()
        ]
    else:
        count = min(work.workers, len(chunks))
        workers = [_worker_spec(work, f"worker {index}", chunks) for index in range(count)]
    return run_children(
        workers,
        max_running=work.workers,
        on_message=pool_round.on_message,
        on_interrupt=pool_round.on_interrupt,
        grace_seconds=_GRACE_SECONDS,
        clock=pool_round.clock,
    )


def _worker_spec(work: PoolTask, worker: str, chunks: Mapping[str, Json]) -> FunctionSpec:
    # Chunks are in a file, because the length of a program's arguments is limited.
    undone = work.claims / _UNDONE.format(f"{next(iter(chunks))}." if len(chunks) == 1 else "")
    if not undone.exists():
        write_whole(undone, json.dumps(list(chunks.items())))
    argument: dict[str, Json] = {
        **work.argument,
        "worker": worker,
        "claims": str(work.claims),
        "undone": str(undone),
        "stall_seconds": work.stall_seconds,
    }
    return FunctionSpec(name=worker, function=work.function, argument=argument)


def _explain_death(ending: CompletedChild, work: PoolTask, *, is_decoded: bool) -> str:
    step = "the model on it" if is_decoded else "working on it"
    if has_stalled(ending.tail):
        return f"{step} hung: no message for {work.stall_seconds:g} s"
    if ending.exit_code == KILLED:
        return "it was killed, perhaps for lack of memory: the process ended by signal 9"
    if ending.exit_code is not None and ending.exit_code < 0:
        return f"{step} crashed: the process ended by signal {-ending.exit_code}"
    if ending.error is not None and ending.error.startswith("MemoryError"):
        return "working on it ran out of memory"
    return f"working on it failed: {ending.error or ending.describe()}"


STARTED: Final = "begun"
DECODED: Final = "read"
MESSAGE: Final = "said"
DONE: Final = "done"
"""Kinds of messages; a message is a list of kind, chunk name and payload."""


class _Connection:
    """Sends the messages of a worker about its chunks; each one resets the hang watchdog."""

    def __init__(self, send: Callable[[Json], None], stall_seconds: float) -> None:
        self._send, self._stall_seconds = send, stall_seconds
        self._in_work: set[str] = set()

    def send(self, kind: str, chunk: str, payload: Json = None) -> None:
        if kind == STARTED:
            self._in_work.add(chunk)
        elif kind == DONE:
            self._in_work.discard(chunk)
        self.heartbeat()
        self._send([kind, chunk, payload])

    def heartbeat(self) -> None:
        if self._in_work:
            arm_watchdog(self._stall_seconds)
        else:
            disarm_watchdog()


@dataclass(frozen=True, kw_only=True)
class ChunkReporter:
    """A claimed chunk, with messages to the supervisor.

    Sending raises BrokenPipeError if the supervisor has ended; then the worker ends.
    """

    chunk: str
    payload: Json
    """Payload of the chunk from the supervisor."""
    connection: _Connection

    def send(self, message: Json) -> None:
        """Send a message about the chunk to the supervisor."""
        self.connection.send(MESSAGE, self.chunk, message)

    def heartbeat(self) -> None:
        """Reset the hang watchdog without a message."""
        self.connection.heartbeat()

    def report_started(self) -> None:
        """Report the start of work; from now on the chunk is a suspect if the worker dies."""
        self.connection.send(STARTED, self.chunk)

    def report_decoded(self) -> None:
        """Report that the chunk is decoded; chunks still being decoded are likelier suspects."""
        self.connection.send(DECODED, self.chunk)

    def report_done(self) -> None:
        """Report that the chunk is done."""
        self.connection.send(DONE, self.chunk)


def iter_chunks(
    argument: Mapping[str, Json], send: Callable[[Json], None]
) -> Iterator[ChunkReporter]:
    """Yield each chunk that this worker claims, as started; it is done when the next is taken."""
    for reporter in iter_claimed_chunks(argument, send):
        reporter.report_started()
        yield reporter
        reporter.report_done()


def iter_rounds(
    argument: Mapping[str, Json], send: Callable[[Json], None]
) -> Iterator[Iterator[ChunkReporter]]:
    """Yield rounds of chunks; a round is done when the next one is taken.

    There is one round of all chunks that this worker can claim; or, in a `PersistentChild`, a round
    per job, which maps chunk names to payloads. Loaded resources stay for later rounds.
    """
    if "claims" in argument:
        yield iter_claimed_chunks(argument, send)
        return
    connection = _Connection(send, float(str(argument["stall_seconds"])))
    for chunks in iter_messages(send):
        assert isinstance(chunks, dict)
        yield (
            ChunkReporter(chunk=name, payload=payload, connection=connection)
            for name, payload in chunks.items()
        )


def iter_claimed_chunks(
    argument: Mapping[str, Json], send: Callable[[Json], None]
) -> Iterator[ChunkReporter]:
    """Yield each chunk that this worker claims, for workers with several chunks in work.

    The worker must report each chunk as started, decoded and done.
    """
    claims = Path(str(argument["claims"]))
    connection = _Connection(send, float(str(argument["stall_seconds"])))
    for chunk, payload in json.loads(Path(str(argument["undone"])).read_text(encoding="utf-8")):
        if claim_chunk(claims, chunk):
            yield ChunkReporter(chunk=chunk, payload=payload, connection=connection)


def claim_chunk(claims: Path, chunk: str) -> bool:
    """Claim a chunk; return True in the first process only."""
    try:
        os.close(os.open(claims / chunk, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    return True


_DUMP_START: Final = "Timeout ("
"""Start of faulthandler's output when it ends a process."""


def arm_watchdog(seconds: float) -> None:
    """End this process after `seconds`, unless the watchdog is armed again or disarmed before.

    It writes the tracebacks of all threads to standard error and exits with code 1. It runs in a
    thread of the interpreter without any lock, so it also ends code that never returns.
    """
    faulthandler.dump_traceback_later(seconds, exit=True)


def disarm_watchdog() -> None:
    """Stop the watchdog."""
    faulthandler.cancel_dump_traceback_later()


def has_stalled(tail: str) -> bool:
    """Return whether the watchdog ended a process, by the tail of its standard error."""
    return _DUMP_START in tail
