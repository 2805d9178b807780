"""The whole check: each step runs in its own process, and its outcome is saved."""

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
"""Required packages; headrace must be installed, at least by --no-deps --editable."""


def missing_packages() -> tuple[str, ...]:
    """Return the missing packages; imports nothing."""
    return tuple(name for name in (*PACKAGES, "headrace") if not any(distributions(name=name)))


def run_steps(
    steps: Sequence[Step], blank: GpuCheckResult, *, seconds: float
) -> Iterator[GpuCheckResult]:
    """Execute the steps in order; yield the result after each, to save it.

    The first step describes the machine. If a GPU is required and missing, no other step runs.
    After an interrupt, no further step starts.

    Args:
        steps: Steps, the machine's first.
        blank: Result without rows.
        seconds: Time limit; no step starts later.
    """
    ends, result, missing = time.monotonic() + seconds, blank, dict[Need, str]()
    stopped: str | None = None
    for step in steps:
        left = ends - time.monotonic()
        row = run_step(step, missing, left) if stopped is None else not_run(step, stopped)
        if step is steps[0] and row.outcome == "passed":
            missing = row.found["missing"]
            made = Provenance.model_validate(row.found["provenance"])
            result = result.model_copy(update={"provenance": made})
            stopped = None if result.is_rehearsal else missing.get("a GPU")
        elif step is steps[0]:
            stopped = "what this machine is is not known"
        if row.outcome == "interrupted":
            stopped = "the check was interrupted"
        result = result.plus(row)
        yield result


def has_no_gpu(result: GpuCheckResult) -> bool:
    """Whether the steps were skipped because there is no GPU."""
    rest = result.rows[1:]
    return bool(rest) and all(row.why == "no NVIDIA GPU here" for row in rest)


_KEPT_LINES: Final = 12
_SHORTEST: Final = 1.0
"""Min remaining seconds to start a step."""


def run_step(step: Step, missing: Mapping[Need, str], left_seconds: float) -> StepRow:
    """Run a step to its end or limit; return its row.

    Its process group is killed at the limit, and on an interrupt.

    Args:
        step: Step to run.
        missing: Missing requirement → reason; steps that need it do not run.
        left_seconds: Upper bound of its limit.
    """
    why = next((missing[need] for need in step.needs if need in missing), None)
    limit = min(step.limit_seconds, left_seconds)
    if why is None and limit < _SHORTEST:
        why = "no time was left for it"
    if why is not None:
        return not_run(step, why)
    started = time.monotonic()
    found = _run_process(step, limit)
    seconds = round(time.monotonic() - started, 2)
    return not_run(step, None).model_copy(update={"seconds": seconds, **found})


def not_run(step: Step, why: str | None) -> StepRow:
    """Return the row of a step that does not run."""
    about = {name: getattr(step, name) for name in ("name", "asks", "limit_seconds")}
    command = tuple(word.replace(f"{ROOT}/", "") for word in step.arguments)
    return StepRow(**about, command=command, outcome="not run", why=why)


def _run_process(step: Step, limit: float) -> dict[str, Any]:
    """Run the process; return fields of the step's row."""
    try:
        status, ended = _wait_for(step, limit)
    except KeyboardInterrupt:
        return {"outcome": "interrupted", "why": "interrupted"}
    outcome = "failed"
    if status is None:
        outcome, why = "too long", f"it was ended after {limit:.0f} s"
    elif status < 0:
        why = f"it died of {signal.Signals(-status).name}"
    elif status != step.exit_status:
        why = f"exit status {status}" + (f", not {step.exit_status}" if step.exit_status else "")
    else:
        try:
            return {"outcome": "passed", **dict(step.read(ended))}
        except UnreadError as error:
            why = str(error)
        except Exception as error:  # noqa: BLE001 - the check goes on, whatever a step printed
            why = f"what it printed cannot be read: {type(error).__name__}: {error}"
    return {"outcome": outcome, "why": why, "last_lines": last_lines(ended.stdout, ended.stderr)}


def _wait_for(step: Step, limit: float) -> tuple[int | None, Ended]:
    """Return the exit status of its process (None: timeout) and its output."""
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
            # Its children belong to its process group, and are killed with it.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(0)
        err.seek(0)
        return status, Ended(process.args, process.returncode, out.read(), err.read())


def last_lines(*texts: str) -> tuple[str, ...]:
    """Return the last lines of each text; long lines are cut."""
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
        raise ValueError(f"no step {', '.join(unknown)}; there are {groups}")
    return tuple(s for s in steps if not only or s.name in only or s.group in only)
