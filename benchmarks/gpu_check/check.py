"""Run of the whole check; each step is a process, and its outcome is saved."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import distributions
from tempfile import TemporaryFile
from typing import Any, Final

from benchmarks.gpu_check.step import Ended, GpuCheckResult, Need, Step, StepRow, UnreadError
from benchmarks.worker import ROOT, python_path
from headrace.profiling.provenance import Provenance

PACKAGES: Final = ("torch", "torchvision", "av", "pydantic", "typer", "plotly", "pytest")
"""Required packages; headrace must also be installed, at least by --no-deps --editable."""


def missing_packages() -> tuple[str, ...]:
    """Return the missing packages, without importing any."""
    return tuple(name for name in (*PACKAGES, "headrace") if not any(distributions(name=name)))


def run_steps(
    steps: Sequence[Step], blank: GpuCheckResult, *, seconds: float
) -> Iterator[GpuCheckResult]:
    """Run the steps in order; yield the result after each, so that it can be saved.

    The first step describes the machine. If a GPU is required and missing, no other step runs.
    After an interrupt, no further step starts.

    Args:
        steps: Steps, with the machine's first.
        blank: Result without rows.
        seconds: Time limit of all steps.
    """
    deadline, result, missing = time.monotonic() + seconds, blank, dict[Need, str]()
    stopped: str | None = None
    for step in steps:
        left = deadline - time.monotonic()
        row = run_step(step, missing, left) if stopped is None else not_run(step, stopped)
        if step is steps[0] and row.outcome == "passed":
            missing = row.found["missing"]
            source = Provenance.model_validate(row.found["provenance"])
            result = result.model_copy(update={"provenance": source})
            stopped = None if result.is_rehearsal else missing.get("a GPU")
        elif step is steps[0]:
            stopped = "the machine is unknown"
        if row.outcome == "interrupted":
            stopped = "the check was interrupted"
        result = result.plus(row)
        yield result


def has_no_gpu(result: GpuCheckResult) -> bool:
    """Return whether all steps after the first were skipped for lack of a GPU."""
    rest = result.rows[1:]
    return bool(rest) and all(row.why == "no NVIDIA GPU here" for row in rest)


_KEPT_LINES: Final = 12
"""Max lines kept of each output of a failed step."""
_SHORTEST: Final = 1.0
"""Min seconds left for a step to start."""


def run_step(step: Step, missing: Mapping[Need, str], left_seconds: float) -> StepRow:
    """Run a step and return its row; its process group is killed at its limit, or on an interrupt.

    Args:
        step: Step to run.
        missing: Missing requirement → reason; a step that needs it does not run.
        left_seconds: Upper bound of the limit.
    """
    why = next((missing[need] for need in step.needs if need in missing), None)
    limit = min(step.limit_seconds, left_seconds)
    if why is None and limit < _SHORTEST:
        why = "no time left"
    if why is not None:
        return not_run(step, why)
    started = time.monotonic()
    fields = _run_process(step, limit)
    seconds = round(time.monotonic() - started, 2)
    return not_run(step, None).model_copy(update={"seconds": seconds, **fields})


def not_run(step: Step, why: str | None) -> StepRow:
    """Return the row of a step that does not run."""
    about = {name: getattr(step, name) for name in ("name", "asks", "limit_seconds")}
    command = tuple(word.replace(f"{ROOT}/", "") for word in step.arguments)
    return StepRow(**about, command=command, outcome="not run", why=why)


def _run_process(step: Step, limit: float) -> dict[str, Any]:
    """Run the process of a step; return fields of its row."""
    try:
        status, ended = _wait_for(step, limit)
    except KeyboardInterrupt:
        return {"outcome": "interrupted", "why": "interrupted"}
    outcome = "failed"
    if status is None:
        outcome, why = "too long", f"killed after {limit:.0f} s"
    elif status < 0:
        why = f"killed by {signal.Signals(-status).name}"
    elif status != step.exit_status:
        why = f"exit status {status}" + (f", not {step.exit_status}" if step.exit_status else "")
    else:
        try:
            return {"outcome": "passed", **dict(step.read(ended))}
        except UnreadError as error:
            why = str(error)
        except Exception as error:  # noqa: BLE001 - unexpected output must not end the check
            why = f"its output cannot be parsed: {type(error).__name__}: {error}"
    return {"outcome": outcome, "why": why, "last_lines": last_lines(ended.stdout, ended.stderr)}


def _wait_for(step: Step, limit: float) -> tuple[int | None, Ended]:
    """Return the exit status of the process, None at the time limit, and its output."""
    with TemporaryFile("w+", errors="replace") as out, TemporaryFile("w+", errors="replace") as err:
        process = subprocess.Popen(
            [sys.executable, *step.arguments],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": python_path(), **step.environment},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        status = None
        try:
            with suppress(subprocess.TimeoutExpired):
                status = process.wait(timeout=limit)
        finally:
            # The process group includes its children.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(0)
        err.seek(0)
        return status, Ended(process.args, process.returncode, out.read(), err.read())


def last_lines(*texts: str) -> tuple[str, ...]:
    """Return the last lines of each text; long lines are truncated."""
    ends: list[str] = []
    for text in texts:
        lines = [line.rstrip() for line in text.splitlines() if line.strip()]
        ends += lines[-_KEPT_LINES:]
    return tuple(line if len(line) <= 400 else f"{line[:397]}..." for line in ends)


def select_steps(steps: Sequence[Step], only: Sequence[str]) -> tuple[Step, ...]:
    """Return the steps with these names or groups; without names, all steps.

    Raises:
        ValueError: a name is unknown.
    """
    known = {name for step in steps for name in (step.name, step.group)}
    unknown = [name for name in only if name not in known]
    if unknown:
        groups = ", ".join(dict.fromkeys(step.group for step in steps))
        raise ValueError(f"unknown step: {', '.join(unknown)}; groups of steps: {groups}")
    return tuple(s for s in steps if not only or s.name in only or s.group in only)
