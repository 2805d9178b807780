"""What the check came to: a row for each step, and the exit status that follows from them."""

from collections.abc import Sequence
from typing import Final, Literal

from benchmarks.record import Result
from headrace.profiling.provenance import Record

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
