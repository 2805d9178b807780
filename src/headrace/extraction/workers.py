"""Workers: child processes that share out chunks, and are replaced when one of them dies.

A worker takes the next chunk that nobody has claimed, says so, and does it. One that dies (a crash
inside a decoder, a hang, no memory) takes nothing with it: the others go on, its chunk is tried
once more, and one that ends two workers is left out with the reason.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from headrace.errors import StageError
from headrace.extraction.ledger import claimed
from headrace.runtime.child import Call, ChildFunction, Ending, Json
from headrace.runtime.children import run_children
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.stall import end_if_stalled, has_stalled, may_rest
from headrace.text_file import write_whole

_TRIES: Final = 2
"""How many workers may die of a chunk: the first may have been killed for something else."""
_GRACE_SECONDS: Final = 2.0
_UNDONE: Final = "chunks.json"
_BEGUN, _DONE, _SAID = "begun", "done", "said"


@dataclass(frozen=True, kw_only=True)
class Work:
    """What workers do with chunks."""

    function: ChildFunction
    """Run in each worker, with `argument`; it does `chunks_to_do`."""
    argument: Mapping[str, Json]
    claims: Path
    """A folder of this run."""
    workers: int
    stall_seconds: float
    """A worker that has nothing to say for so long hangs, and is ended."""


@dataclass(kw_only=True)
class WorkOutcome:
    """What became of the chunks that were to be done."""

    fallen: dict[str, str] = field(default_factory=dict)
    """Name of a chunk → why it is left out."""
    is_interrupted: bool = False


def work_through(
    work: Work,
    chunks: Mapping[str, Json],
    *,
    on_said: Callable[[str, Json], None] = lambda chunk, said: None,
    on_done: Callable[[str], None] = lambda chunk: None,
    clock: Clock = SYSTEM_CLOCK,
) -> WorkOutcome:
    """Have workers do `chunks`, in this order, until each is done or has ended two workers.

    Args:
        work: What is done with them.
        chunks: Name of each → what workers are told of it.
        on_said: Called with the name of a chunk and what a worker says of it. What it raises ends
            the workers, and is raised.
        on_done: Called with the name of a chunk when it is done.
        clock: Measures.

    Raises:
        StageError: workers die before they begin with a chunk.
    """
    outcome, deaths = WorkOutcome(), Counter[str]()
    left = dict(chunks)
    while left and not outcome.is_interrupted:
        watch = _Round(on_said, on_done)
        endings = _run(work, left, watch, outcome, clock)
        dead = [ending for ending in endings if not ending.is_good]
        for ending in [] if outcome.is_interrupted else dead:
            chunk = watch.at.get(ending.name)
            if chunk is not None:
                deaths[chunk] += 1
                if deaths[chunk] >= _TRIES:
                    outcome.fallen[chunk] = _reason(ending, work)
        if not watch.done and not watch.at and not outcome.is_interrupted:
            why = dead[0].describe() if dead else "workers ended without having done anything"
            raise StageError(f"{why}; nothing could be begun", stage="workers")
        over = {*watch.done, *outcome.fallen}
        left = {name: told for name, told in left.items() if name not in over}
    return outcome


class _Round:
    """What the workers of one round say."""

    def __init__(
        self, on_said: Callable[[str, Json], None], on_done: Callable[[str], None]
    ) -> None:
        self.done: set[str] = set()
        self.at: dict[str, str] = {}
        """Worker → the chunk it has begun and not done."""
        self._on_said, self._on_done = on_said, on_done

    def hear(self, worker: str, message: Json) -> None:
        assert isinstance(message, list)
        kind, chunk, said = message
        assert isinstance(chunk, str)
        if kind == _BEGUN:
            self.at[worker] = chunk
        elif kind == _SAID:
            self._on_said(chunk, said)
        else:
            self.done.add(chunk)
            del self.at[worker]
            self._on_done(chunk)


def _run(
    work: Work, left: Mapping[str, Json], watch: _Round, outcome: WorkOutcome, clock: Clock
) -> list[Ending]:
    for path in work.claims.iterdir():
        path.unlink()
    # In a file: what is given to a program as arguments may not be long.
    write_whole(work.claims / _UNDONE, json.dumps(list(left.items())))
    argument: dict[str, Json] = {
        **work.argument,
        "claims": str(work.claims),
        "stall_seconds": work.stall_seconds,
    }

    def interrupt() -> None:
        outcome.is_interrupted = True

    return run_children(
        [
            Call(name=f"worker {number}", function=work.function, argument=argument)
            for number in range(min(work.workers, len(left)))
        ],
        on_message=watch.hear,
        on_interrupt=interrupt,
        grace_seconds=_GRACE_SECONDS,
        clock=clock,
    )


def _reason(ending: Ending, work: Work) -> str:
    if has_stalled(ending.tail):
        return f"its decoder hung: nothing came for {work.stall_seconds:g} s"
    if ending.exit_code is not None and ending.exit_code < 0:
        return f"its decoder crashed: the process ended by signal {-ending.exit_code}"
    return f"working on it failed: {ending.error or ending.describe()}"


@dataclass(frozen=True, kw_only=True)
class Speaker:
    """What a worker says of the chunk it is at; each word shows that it does not hang."""

    chunk: str
    told: Json
    """What workers are told of the chunk."""
    send: Callable[[Json], None]
    stall_seconds: float

    def say(self, said: Json) -> None:
        """Say something of the chunk, to whoever watches over the workers.

        Raises:
            BrokenPipeError: nobody does any more; the worker ends.
        """
        end_if_stalled(self.stall_seconds)
        self.send([_SAID, self.chunk, said])


def chunks_to_do(argument: Mapping[str, Json], send: Callable[[Json], None]) -> Iterator[Speaker]:
    """Yield each chunk that this worker has claimed; when it asks for the next, it is done."""
    claims, stall_seconds = Path(str(argument["claims"])), float(str(argument["stall_seconds"]))
    for chunk, told in json.loads((claims / _UNDONE).read_text(encoding="utf-8")):
        if claimed(claims, chunk):
            end_if_stalled(stall_seconds)
            send([_BEGUN, chunk, None])
            yield Speaker(chunk=chunk, told=told, send=send, stall_seconds=stall_seconds)
            may_rest()
            send([_DONE, chunk, None])
