"""Checks and measures all features that need an NVIDIA GPU, in one call: `make gpu-check`.

Needs no network and no weights: models are random, media are generated. Missing packages are
reported first. Each step is a process with its own time limit, so a step that hangs or crashes is
a failed row and the other steps run.

Exit status: 0 all steps passed; 1 a step failed or exceeded its time limit; 2 usage error; 3 no
NVIDIA GPU; 4 all steps that ran passed, but not every step ran; 130 interrupted.
"""

import argparse
import os
import signal
import sys
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from benchmarks.gpu_check.check import (  # noqa: E402
    PACKAGES,
    has_no_gpu,
    missing_packages,
    run_steps,
    select_steps,
)
from benchmarks.gpu_check.step import (  # noqa: E402
    INTERRUPTED,
    NO_GPU,
    GpuCheckResult,
    Step,
    render,
    step_line,
)
from benchmarks.gpu_check.steps import ALWAYS, Plan, steps_of  # noqa: E402
from benchmarks.record import command, origin  # noqa: E402
from headrace.errors import HeadraceError  # noqa: E402

WRONG_USAGE = 2


def main() -> int:
    """Run the steps, print the summary, return the exit status."""
    options = parser().parse_args()
    only = [name for name in options.only.split(",") if name]
    out = options.out.resolve()
    parameters = {"rehearse": options.rehearse, "only": options.only, "seconds": options.seconds}
    plan = Plan(out=out, is_rehearsal=options.rehearse)
    steps = steps_of(plan, parameters, list(command()))
    try:
        steps = select_steps(steps, [*ALWAYS, *only] if only else ())
    except ValueError as error:
        return print_usage_error(f"--only: {error}")
    if options.list:
        print("\n".join(map(describe_step, steps)))
        return 0
    print(f"Needs {', '.join(PACKAGES)} and headrace\ninstalled; no network, no weights.")
    if missing := missing_packages():
        return print_usage_error(f"cannot import {', '.join(missing)}; install them")
    if not options.seconds > 0:
        return print_usage_error(f"--seconds must be > 0, got {options.seconds:g}")
    record = out / "gpu_check.json"
    try:
        out.mkdir(parents=True, exist_ok=True)
        result = check(steps, plan, parameters, options.seconds, record)
    except (OSError, HeadraceError) as error:
        return print_usage_error(f"cannot write into {out}: {error}")
    print(f"\n{render(result)}Record: {record}")
    if not options.rehearse and has_no_gpu(result):
        print(
            "gpu_check: this machine has no NVIDIA GPU, so nothing was checked; --rehearse runs "
            "the same steps on the CPU",
            file=sys.stderr,
        )
        return NO_GPU
    return result.exit_status


def check(
    steps: tuple[Step, ...],
    plan: Plan,
    parameters: dict[str, object],
    seconds: float,
    record: Path,
) -> GpuCheckResult:
    """Run the steps and write the record after each; SIGTERM interrupts as Ctrl-C does."""
    signal.signal(signal.SIGTERM, interrupt)
    empty = result = GpuCheckResult(provenance=origin(**parameters), is_rehearsal=plan.is_rehearsal)
    for result in run_steps(steps, empty, seconds=seconds):
        print(step_line(result.rows[-1]), flush=True)
        result.save(record)
    return result


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, as a signal handler."""
    raise KeyboardInterrupt


def describe_step(step: Step) -> str:
    """Return a line with the name, question, time limit and needs of a step."""
    needs = f", needs {', '.join(step.needs)}" if step.needs else ""
    return f"{step.name:14} {step.asks} (at most {step.limit_seconds:.0f} s{needs})"


def print_usage_error(message: str) -> int:
    """Print the error; return the exit status."""
    print(f"gpu_check: {message}", file=sys.stderr)
    return WRONG_USAGE


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    result = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    result.add_argument(
        "--rehearse", action="store_true", help="run the steps on the CPU, with small settings"
    )
    result.add_argument(
        "--only", default="", metavar="STEPS", help="run only these, such as tests,run,nvdec:h264"
    )
    result.add_argument(
        "--out", type=Path, default=ROOT / "build" / "gpu_check", help="output folder"
    )
    result.add_argument(
        "--seconds", type=float, default=570, help="start no step after this time; 570 by default"
    )
    result.add_argument("--list", action="store_true", help="list the steps; run nothing")
    return result


if __name__ == "__main__":
    try:
        status = main()
    except BrokenPipeError:  # the reader closed the pipe, as in `... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = INTERRUPTED
    except KeyboardInterrupt:  # finished steps are in the record
        status = INTERRUPTED
    sys.exit(status)
