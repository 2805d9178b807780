"""A step of the check, what became of it, and the exit status that follows, as values."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from benchmarks.record import Result
from headrace.profiling.provenance import Record

Need = Literal["a GPU", "NVDEC", "PyNvVideoCodec", "bench decode", "bench transfer"]
"""What not every machine has, or not every version of headrace."""


class UnreadError(Exception):
    """What a step printed is not what it prints when all went well; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What the output of a step says."""

    said: str
    """In a line."""
    heads: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    """A table, where the step makes one."""


def tell(
    said: str, heads: Sequence[str] = (), rows: Sequence[Sequence[str]] = (), **more: Any
) -> None:
    """Print what a program of this folder found, as one line: fields of a `Reading`, and more."""
    print(json.dumps({"said": said, "heads": heads, "rows": rows, **more}))


@dataclass(frozen=True, kw_only=True)
class Ended:
    """What a process printed that ended by itself."""

    stdout: str
    stderr: str


Read = Callable[[Ended], Reading]
"""Raises UnreadError."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One thing that is checked or measured, in a process of its own."""

    name: str
    """`run:3`: --only takes it, or what stands before the colon."""
    asks: str
    """What it is about, in a few words."""
    arguments: tuple[str, ...]
    """Of Python: `-m headrace run ...`."""
    limit_seconds: float
    """The process is ended then."""
    read: Read
    exit_status: int = 0
    """With which it ends when all is as it should be."""
    needs: tuple[Need, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables of its process, besides those of this one."""

    @property
    def group(self) -> str:
        """What stands before the colon of its name."""
        return self.name.partition(":")[0]


Outcome = Literal["passed", "failed", "too long", "interrupted", "not run"]

ALL_PASSED: Final = 0
SOME_FAILED: Final = 1
NO_GPU: Final = 3
NOT_ALL_RAN: Final = 4
"""What ran has passed, and something did not run: the summary says what, and why."""
INTERRUPTED: Final = 130


class StepRow(Record):
    """What became of a step."""

    name: str
    asks: str
    command: tuple[str, ...]
    """Behind `python`."""
    outcome: Outcome
    """`passed` only where its process ran, ended as it should and printed what it should."""
    why: str | None = None
    """Why it did not pass."""
    seconds: float | None = None
    """Wall time; None where it did not run."""
    limit_seconds: float
    said: str = ""
    """What it found, in a line."""
    heads: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    """Its table, where it has one."""
    last_lines: tuple[str, ...] = ()
    """The end of what it printed, where it did not pass."""


class GpuCheckResult(Result):
    """The whole check."""

    is_rehearsal: bool
    """Whether it ran on the CPU with small settings: then it says nothing of a GPU."""
    rows: tuple[StepRow, ...] = ()

    @property
    def exit_status(self) -> int:
        """What the command ends with."""
        return status_of([row.outcome for row in self.rows])


def status_of(outcomes: Sequence[Outcome]) -> int:
    """Return the exit status: a failure counts more than what did not run."""
    if "interrupted" in outcomes:
        return INTERRUPTED
    if {"failed", "too long"} & set(outcomes):
        return SOME_FAILED
    return NOT_ALL_RAN if "not run" in outcomes or not outcomes else ALL_PASSED
