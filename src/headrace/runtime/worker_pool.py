"""Workers: child processes that share out chunks, and are replaced when one of them dies.

A worker takes the next chunk that nobody has claimed, says so, and does it; it may be at several at
a time. One that dies (a crash inside a decoder, a hang, no memory) takes nothing with it: the
others go on. What it was decoding is tried once more, each chunk in a worker of its own, and one
that ends that too is left out with the reason.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from headrace.atomic_file import write_whole
from headrace.errors import StageError
from headrace.runtime.child_spec import ChildFunction, CompletedChild, FunctionSpec, Json
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.hang_detector import has_stalled
from headrace.runtime.supervisor import run_children
from headrace.runtime.worker_protocol import BEGUN, READ, SAID

_TRIES: Final = 2
"""How many workers may die of a chunk: the first may have been killed for something else."""
_GRACE_SECONDS: Final = 2.0
_UNDONE: Final = "{}chunks.json"
_KILLED: Final = -9


@dataclass(frozen=True, kw_only=True)
class PoolTask:
    """What workers do with chunks."""

    function: ChildFunction
    """Run in each worker, with `argument`; it does `chunks_to_do`, or `claimed_chunks`."""
    argument: Mapping[str, Json]
    claims: Path
    """A folder of this run."""
    workers: int
    stall_seconds: float
    """A worker that has nothing to say for so long hangs, and is ended."""


@dataclass(kw_only=True)
class PoolResult:
    """What became of the chunks that were to be done."""

    fallen: dict[str, str] = field(default_factory=dict)
    """Name of a chunk → why it is left out."""
    is_interrupted: bool = False


class PoolBackend(Protocol):
    """Has workers do what they can of some chunks: `run_workers`, or its like on many machines."""

    def __call__(
        self,
        work: PoolTask,
        chunks: Mapping[str, Json],
        *,
        alone: bool,
        on_message: Callable[[str, Json], None],
        on_interrupt: Callable[[], None],
        clock: Clock,
    ) -> list[CompletedChild]:
        """Return how each worker ended.

        Args:
            work: What is done.
            chunks: Name of each → what workers are told of it.
            alone: Whether each chunk has a worker to itself.
            on_message: Called with the name of a worker and what it sends.
            on_interrupt: Called at Ctrl-C; the workers end soon then.
            clock: Measures.
        """


def work_through(
    work: PoolTask,
    chunks: Mapping[str, Json],
    *,
    on_said: Callable[[str, str, Json], None] = lambda worker, chunk, said: None,
    on_done: Callable[[str], None] = lambda chunk: None,
    on_fallen: Callable[[str, str], None] = lambda chunk, why: None,
    run: PoolBackend | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> PoolResult:
    """Have workers do `chunks`, in this order, until each is done or has ended two workers.

    Args:
        work: What is done with them.
        chunks: Name of each → what workers are told of it.
        on_said: Called with the name of a worker, of a chunk, and what the worker says of it. What
            it raises ends the workers, and is raised.
        on_done: Called with the name of a chunk when it is done.
        on_fallen: Called with the name of a chunk that is left out, and why.
        run: Has workers do what they can; None: `run_workers`, on this machine.
        clock: Measures.

    Raises:
        StageError: workers die before they begin with a chunk.
    """
    outcome, deaths = PoolResult(), Counter[str]()
    left = dict(chunks)
    while left:
        # What a worker died of waits until the others are done; then each has a worker to itself.
        unsuspected = {name: told for name, told in left.items() if not deaths[name]}
        watch = _Round(on_said, on_done)

        def interrupt() -> None:
            outcome.is_interrupted = True

        endings = (run or run_workers)(
            work,
            unsuspected or left,
            alone=not unsuspected,
            on_message=watch.hear,
            on_interrupt=interrupt,
            clock=clock,
        )
        dead = [ending for ending in endings if not ending.is_good]
        if outcome.is_interrupted:
            break
        if not watch.done and not watch.has_begun:
            why = dead[0].describe() if dead else "workers ended without having done anything"
            raise StageError(f"{why}; nothing could be begun", stage="workers")
        for ending in dead:
            for chunk in watch.suspects(ending.name):
                deaths[chunk] += 1
                if deaths[chunk] >= _TRIES:
                    outcome.fallen[chunk] = _reason(ending, work, is_read=watch.is_read(chunk))
                    on_fallen(chunk, outcome.fallen[chunk])
        over = {*watch.done, *outcome.fallen}
        left = {name: told for name, told in left.items() if name not in over}
    return outcome


class _Round:
    """What the workers of one round say."""

    def __init__(
        self, on_said: Callable[[str, str, Json], None], on_done: Callable[[str], None]
    ) -> None:
        self.done: set[str] = set()
        self._at: dict[str, dict[str, bool]] = {}
        """Worker → each chunk it has begun and not done → whether it is past decoding it."""
        self._on_said, self._on_done = on_said, on_done

    @property
    def has_begun(self) -> bool:
        """Whether a chunk was begun that is not done."""
        return any(self._at.values())

    def hear(self, worker: str, message: Json) -> None:
        assert isinstance(message, list)
        kind, chunk, said = message
        assert isinstance(chunk, str)
        at = self._at.setdefault(worker, {})
        if kind == BEGUN:
            at[chunk] = False
        elif kind == READ:
            at[chunk] = True
        elif kind == SAID:
            self._on_said(worker, chunk, said)
        else:
            self.done.add(chunk)
            del at[chunk]
            self._on_done(chunk)

    def suspects(self, worker: str) -> list[str]:
        """Return what a worker may have died of: what it was decoding, else all it was at."""
        at = self._at.get(worker, {})
        return [chunk for chunk, is_read in at.items() if not is_read] or list(at)

    def is_read(self, chunk: str) -> bool:
        """Return whether a chunk that is not done was past decoding."""
        return any(at.get(chunk, False) for at in self._at.values())


def run_workers(
    work: PoolTask,
    chunks: Mapping[str, Json],
    *,
    alone: bool,
    on_message: Callable[[str, Json], None],
    on_interrupt: Callable[[], None],
    clock: Clock,
) -> list[CompletedChild]:
    """Have workers do what they can of `chunks`; return how each ended: a `PoolBackend`."""
    for path in work.claims.iterdir():
        path.unlink()
    if alone:
        calls = [_call(work, f"worker of {name}", {name: told}) for name, told in chunks.items()]
    else:
        number = min(work.workers, len(chunks))
        calls = [_call(work, f"worker {place}", chunks) for place in range(number)]
    return run_children(
        calls,
        at_once=work.workers,
        on_message=on_message,
        on_interrupt=on_interrupt,
        grace_seconds=_GRACE_SECONDS,
        clock=clock,
    )


def _call(work: PoolTask, worker: str, chunks: Mapping[str, Json]) -> FunctionSpec:
    # In a file: what is given to a program as arguments may not be long.
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


def _reason(ending: CompletedChild, work: PoolTask, *, is_read: bool) -> str:
    what = "the model on it" if is_read else "working on it"
    if has_stalled(ending.tail):
        return f"{what} hung: nothing came for {work.stall_seconds:g} s"
    if ending.exit_code == _KILLED:
        return "it was killed, as where memory runs out: the process ended by signal 9"
    if ending.exit_code is not None and ending.exit_code < 0:
        return f"{what} crashed: the process ended by signal {-ending.exit_code}"
    if ending.error is not None and ending.error.startswith("MemoryError"):
        return "memory ran out while it was worked on"
    return f"working on it failed: {ending.error or ending.describe()}"
