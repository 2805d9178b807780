"""Steps of the GPU check: outcomes, exit status and summary."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from subprocess import CompletedProcess
from textwrap import wrap
from typing import Any, Final, Literal

from pydantic import Field

from benchmarks.record import Rows
from headrace.profiling.provenance import Record

Need = Literal["a GPU", "NVDEC", "PyNvVideoCodec"]
"""Requirement that some machines lack."""


class UnreadError(Exception):
    """Unexpected output of a step; the message is the reason."""


class Reading(Record):
    """Parsed output of a step."""

    said: str = ""
    """Main result, in one line."""
    heads: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    """Table; empty: none."""
    found: dict[str, Any] = Field(default_factory=dict, exclude=True)
    """Other results, which are not saved."""


def print_reading(
    said: str, heads: Sequence[str] = (), rows: Sequence[Sequence[str]] = (), **more: Any
) -> None:
    """Print the result of a program of this folder as one line: fields of a `Reading`, and more."""
    print(json.dumps({"said": said, "heads": heads, "rows": rows, **more}))


Ended = CompletedProcess[str]
"""Process that exited by itself, with its output."""
Read = Callable[[Ended], Reading]
"""Raises UnreadError."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One check or measurement, in its own process."""

    name: str
    """Name for --only, like `run:3`; its group is the part before the colon."""
    asks: str
    """Subject, in a few words."""
    arguments: tuple[str, ...]
    """Arguments of Python: `-m headrace run ...`."""
    limit_seconds: float
    read: Read
    exit_status: int = 0
    """Expected exit status."""
    needs: tuple[Need, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that are set for its process."""

    @property
    def group(self) -> str:
        """Part of its name before the colon."""
        return self.name.partition(":")[0]


Outcome = Literal["passed", "failed", "too long", "interrupted", "not run"]

ALL_PASSED: Final = 0
SOME_FAILED: Final = 1
NO_GPU: Final = 3
NOT_ALL_RAN: Final = 4
"""All steps that ran have passed, but some did not run; the summary has the reasons."""
INTERRUPTED: Final = 130


class StepRow(Reading):
    """Outcome of a step."""

    name: str
    asks: str
    command: tuple[str, ...]
    """Arguments after `python`."""
    outcome: Outcome
    """`passed` if its process exited as expected and printed the expected output."""
    why: str | None = None
    """Reason it did not pass."""
    seconds: float | None = None
    """Wall time; None: it did not run."""
    limit_seconds: float
    last_lines: tuple[str, ...] = ()
    """End of its output, if it did not pass."""

    @property
    def words(self) -> str:
        """Main result, or the reason it did not pass."""
        return self.said if self.outcome == "passed" else self.why or ""


class GpuCheckResult(Rows[StepRow]):
    """The whole check."""

    is_rehearsal: bool
    """Whether it ran on the CPU with small settings, which checks no GPU."""

    @property
    def exit_status(self) -> int:
        """Exit status of the command."""
        return status_of([row.outcome for row in self.rows])


def status_of(outcomes: Sequence[Outcome]) -> int:
    """Return the exit status; failures outrank steps that did not run."""
    if "interrupted" in outcomes:
        return INTERRUPTED
    if {"failed", "too long"} & set(outcomes):
        return SOME_FAILED
    return NOT_ALL_RAN if "not run" in outcomes or not outcomes else ALL_PASSED


_WIDTH: Final = 80


def render(result: GpuCheckResult) -> str:
    """Return the whole summary, ending in a newline."""
    lines = [*_head(result), ""]
    names = max((len(row.name) for row in result.rows), default=4)
    lines.append(f"{'step':<{names}}  {'outcome':<11}  {'seconds':>7}")
    for row in result.rows:
        lines += _line(row, names)
    lines += ["", *_counted(result)]
    return "\n".join(lines) + "\n"


def step_line(row: StepRow) -> str:
    """Return the outcome of a step as one line."""
    took = "" if row.seconds is None else f", {row.seconds:.1f} s"
    words = f": {row.words}" if row.words else ""
    return "\n".join(_wrapped(f"{row.name}: {row.outcome}{took}{words}", ""))


def _head(result: GpuCheckResult) -> Iterator[str]:
    source = result.provenance
    gpus = ", ".join(f"{gpu.name}, driver {gpu.driver or '?'}" for gpu in source.machine.gpus)
    version = f"headrace {source.headrace} at {source.commit or '?'}"
    yield from _wrapped(f"{version}, {source.created:%Y-%m-%d %H:%M} UTC", "")
    yield from _wrapped(f"GPU {gpus or 'none'}; {source.machine.cpu}", "")
    if result.is_rehearsal:
        yield "Rehearsal on the CPU with small settings: no GPU was checked."


def _line(row: StepRow, names: int) -> Iterator[str]:
    seconds = "-" if row.seconds is None else f"{row.seconds:.1f}"
    yield f"{row.name:<{names}}  {row.outcome:<11}  {seconds:>7}"
    yield from _wrapped(row.words, "    ")
    yield from _table(row)
    for line in row.last_lines[-3:]:
        yield from _wrapped(f"| {line}", "    ")


def _table(row: StepRow) -> Iterator[str]:
    """Yield the step's table; last columns that do not fit are dropped."""
    if not row.rows:
        return
    columns = list(zip(row.heads, *row.rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    shown = max(1, sum(end <= _WIDTH - 4 for end in accumulate(width + 2 for width in widths)))
    for cells in (row.heads, *row.rows):
        texts = [cells[0].ljust(widths[0]), *map(str.rjust, cells[1:shown], widths[1:])]
        yield f"      {'  '.join(texts)}"[:_WIDTH].rstrip()
    if shown < len(widths):
        yield f"      ({len(widths) - shown} more columns in the JSON)"


def _counted(result: GpuCheckResult) -> Iterator[str]:
    counts = Counter(row.outcome for row in result.rows)
    words = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    yield f"{counts.total()} steps: {words or 'none'}"
    for outcome in ("failed", "too long", "interrupted", "not run"):
        names = [row.name for row in result.rows if row.outcome == outcome]
        if names:
            yield from _wrapped(f"{outcome}: {', '.join(names)}", "")


def _wrapped(text: str, indent: str) -> list[str]:
    further = indent + ("" if indent else "  ")
    return wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=further) if text else []
