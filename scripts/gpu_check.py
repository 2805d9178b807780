"""Checks and measures all that wants an NVIDIA GPU, in one call: `make gpu-check`.

Needs no network and no weights: models have random ones, media are made. What must be there is
said first. Each step is a process with a time limit of its own, so that one that hangs or dies is
a row and the rest goes on.

Exit status: 0 every step ran and passed; 1 one failed or took too long; 2 it was asked what cannot
be; 3 there is no NVIDIA GPU; 4 what ran has passed and not every step ran; 130 interrupted.
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
    asked = {"rehearse": options.rehearse, "only": options.only, "seconds": options.seconds}
    plan = Plan(out=out, is_rehearsal=options.rehearse)
    steps = steps_of(plan, asked, list(command()))
    try:
        steps = select_steps(steps, [*ALWAYS, *only] if only else ())
    except ValueError as error:
        return complain(f"--only: {error}")
    if options.list:
        print("\n".join(map(listed, steps)))
        return 0
    print(f"Needs {', '.join(PACKAGES)} and headrace\ninstalled; no network, no weights.")
    if absent := missing_packages():
        return complain(f"{', '.join(absent)} cannot be imported here; install what is missing")
    if not options.seconds > 0:
        return complain(f"--seconds must be > 0, got {options.seconds:g}")
    kept = out / "gpu_check.json"
    try:
        out.mkdir(parents=True, exist_ok=True)
        result = check(steps, plan, asked, options.seconds, kept)
    except (OSError, HeadraceError) as error:
        return complain(f"cannot write into {out}: {error}")
    print(f"\n{render(result)}Kept in {kept}")
    if not options.rehearse and has_no_gpu(result):
        print(
            "gpu_check: no NVIDIA GPU here, nothing was checked; --rehearse runs the same "
            "steps on the CPU",
            file=sys.stderr,
        )
        return NO_GPU
    return result.exit_status


def check(
    steps: tuple[Step, ...], plan: Plan, asked: dict[str, object], seconds: float, kept: Path
) -> GpuCheckResult:
    """Run the steps; SIGTERM ends it as Ctrl-C does."""
    signal.signal(signal.SIGTERM, interrupt)
    blank = result = GpuCheckResult(provenance=origin(**asked), is_rehearsal=plan.is_rehearsal)
    for result in run_steps(steps, blank, seconds=seconds):
        print(step_line(result.rows[-1]), flush=True)
        result.save(kept)
    return result


def interrupt(number: int, frame: FrameType | None) -> None:
    """Do what Ctrl-C does."""
    raise KeyboardInterrupt


def listed(step: Step) -> str:
    """Return a line on a step."""
    needs = f", needs {', '.join(step.needs)}" if step.needs else ""
    return f"{step.name:14} {step.asks} (at most {step.limit_seconds:.0f} s{needs})"


def complain(words: str) -> int:
    """Say what is wrong; return the exit status."""
    print(f"gpu_check: {words}", file=sys.stderr)
    return WRONG_USAGE


def parser() -> argparse.ArgumentParser:
    """Return what reads the command line."""
    found = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found.add_argument(
        "--rehearse", action="store_true", help="the same steps on the CPU, with small settings"
    )
    found.add_argument(
        "--only", default="", metavar="STEPS", help="these alone, with commas: tests,run,nvdec:h264"
    )
    found.add_argument("--out", type=Path, default=ROOT / "build" / "gpu_check", help="folder")
    found.add_argument(
        "--seconds", type=float, default=570, help="for all; what would begin later is not run"
    )
    found.add_argument("--list", action="store_true", help="name the steps, run nothing")
    return found


if __name__ == "__main__":
    try:
        status = main()
    except BrokenPipeError:  # whoever read has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = INTERRUPTED
    except KeyboardInterrupt:  # between two steps; what was found is kept
        status = INTERRUPTED
    sys.exit(status)
