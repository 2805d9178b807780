"""How a worker of a launch ended, told from what it left behind."""

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.profiling.number_format import counted
from headrace.profiling.session import Session
from headrace.runs.launch.record import WorkerOutcome
from headrace.runtime.child import Ending

_LAST_LINES: Final = 8
_OURS: Final = "headrace: "
"""What a line begins with in which a run says what went wrong."""


@dataclass(frozen=True, kw_only=True)
class End:
    """How one worker ended."""

    outcome: WorkerOutcome
    error: str | None = None
    last_lines: tuple[str, ...] = ()


def end_of(
    session: Session | None,
    ending: Ending | None,
    *,
    has_begun: bool,
    is_interrupted: bool,
    broken: Sequence[str],
    folder: Path,
    is_dry: bool = False,
) -> End:
    """Return how a worker ended.

    Args:
        session: What it recorded; None where it left nothing.
        ending: Of its process; None where that was ended because others could not begin.
        has_begun: Whether it was past the start.
        is_interrupted: Whether all were asked to end.
        broken: The workers that ended before the start.
        folder: Of its results.
        is_dry: Whether it was only to check what it would do.
    """
    is_good = ending is not None and ending.exit_code == 0
    if ending is not None and _is_killed(ending) and not is_interrupted:
        steps = 0 if session is None else len(session.steps)
        kept = f"{counted(steps, 'step')}; what it wrote is in {folder}"
        words = killed_words(ending.exit_code)
        return End(
            outcome="died" if has_begun and not is_dry else "failed",
            error=f"{words} after {kept}" if steps else f"{words} before its first record",
            last_lines=_lines(ending),
        )
    if session is not None:
        if session.outcome != "complete" or is_good:
            shown = _lines(ending) if session.outcome == "failed" else ()
            return End(outcome=session.outcome, error=session.error, last_lines=shown)
        return _badly("failed", ending)
    if is_dry and is_good:
        return End(outcome="complete")
    if is_interrupted:
        return End(outcome="interrupted")
    if ending is None:
        others = ", ".join(broken) or "another worker"
        return End(outcome="not begun", error=f"it waited for {others}, which could not begin")
    return _badly("died" if has_begun and not is_dry else "failed", ending)


def killed_words(exit_code: int | None) -> str:
    """Return `killed (signal 9, SIGKILL)` for the exit code of a process that a signal ended."""
    number = -(exit_code or 0)
    try:
        name = f", {signal.Signals(number).name}"
    except ValueError:
        name = ""
    return f"killed (signal {number}{name})"


def _is_killed(ending: Ending) -> bool:
    return ending.exit_code is not None and ending.exit_code < 0


def _badly(outcome: WorkerOutcome, ending: Ending | None) -> End:
    error, lines = _why(ending), _lines(ending)
    is_said = lines == (f"{_OURS}{error}",)
    return End(outcome=outcome, error=error, last_lines=() if is_said else lines)


def _lines(ending: Ending | None) -> tuple[str, ...]:
    tail = ending.tail if ending else ""
    return tuple(line for line in tail.splitlines() if line.strip())[-_LAST_LINES:]


def _why(ending: Ending | None) -> str:
    """In its own words where it had any, else how its process ended."""
    lines = _lines(ending)
    told = [line for line in lines if line.startswith(_OURS)]
    if told:
        return told[-1].removeprefix(_OURS)
    if ending is None:
        return "it ended without a word"
    if ending.exit_code == 0:
        return "it ended without a session"
    return ending.describe()
