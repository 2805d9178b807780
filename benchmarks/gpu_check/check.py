"""The check as a whole: steps are executed one after the other, and what became of each is kept."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from benchmarks.gpu_check.execute import execute, not_run
from benchmarks.gpu_check.readings import last_line
from benchmarks.gpu_check.record import GpuCheckResult, StepRow
from benchmarks.gpu_check.step import Ended, Need, Reading, Step
from headrace.profiling.provenance import Provenance
from headrace.text_file import write_whole

PACKAGES: Final = ("torch", "torchvision", "av", "pydantic", "typer", "plotly", "pytest")
"""What must be importable; headrace itself must be installed, if only by --no-deps --editable."""

OnRow = Callable[[StepRow], None]
Keep = Callable[[GpuCheckResult], None]


def lacking() -> tuple[str, ...]:
    """Return the packages that are needed and not here; imports none of them."""
    absent = [name for name in PACKAGES if find_spec(name) is None]
    try:
        version("headrace")
    except PackageNotFoundError:
        absent.append("headrace")
    return tuple(absent)


def hold(
    steps: Sequence[Step],
    blank: GpuCheckResult,
    *,
    seconds: float,
    on_row: OnRow,
    keep: Keep,
    clock: Callable[[], float] = time.monotonic,
) -> GpuCheckResult:
    """Execute the steps; return what became of each, in their order.

    The first step tells what the machine is and has; without a GPU that is asked for, nothing else
    is run. What is under way when it is interrupted is the last that is begun.

    Args:
        steps: The machine's first.
        blank: The result without rows.
        seconds: For all of them; what would begin later is not run.
        on_row: Hears of each as it ends.
        keep: Is given the result behind each, so that what was found outlives this process.
        clock: What measures.
    """
    started = clock()
    result, missing = blank, dict[Need, str]()
    stopped: str | None = None
    for number, step in enumerate(steps):
        if stopped is not None:
            row = not_run(step, stopped)
        elif number == 0:
            found: dict[str, Any] = {}
            row = execute(_kept(step, found), missing, seconds)
            if row.outcome == "passed":
                missing = found["missing"]
                made = Provenance.model_validate(found["provenance"])
                result = result.model_copy(update={"provenance": made})
            stopped = None if row.outcome == "passed" else "what this machine is is not known"
            if not result.is_rehearsal and "a GPU" in missing:
                stopped = missing["a GPU"]
        else:
            row = execute(step, missing, seconds - (clock() - started))
        if row.outcome == "interrupted":
            stopped = "the check was interrupted"
        result = result.model_copy(update={"rows": (*result.rows, row)})
        on_row(row)
        keep(result)
    return result


def has_no_gpu(result: GpuCheckResult) -> bool:
    """Whether nothing was run because there is no GPU."""
    rest = result.rows[1:]
    return bool(rest) and all(row.why == "no NVIDIA GPU here" for row in rest)


def _kept(step: Step, found: dict[str, Any]) -> Step:
    """Return the step, whose reading leaves all that it was told in `found`."""

    def read(ended: Ended) -> Reading:
        found.update(last_line(ended))
        return step.read(ended)

    return replace(step, read=read)


def save(result: GpuCheckResult, path: Path) -> None:
    """Write the result, whole or not at all. Raises ConfigError: it cannot be written."""
    write_whole(path, result.model_dump_json(indent=1, exclude_none=True) + "\n")
