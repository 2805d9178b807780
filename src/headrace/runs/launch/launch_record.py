"""Record of a launch: outcome and figures of each worker, and how long all ran together."""

import signal
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from headrace.profiling.findings.verdict import find
from headrace.profiling.metrics import Metrics
from headrace.profiling.number_format import counted
from headrace.profiling.provenance import CommandLine, Provenance, Record, Share, Text
from headrace.profiling.run_records import Role, Usage
from headrace.profiling.session import NOT_ALL, Session
from headrace.runtime.child_process import CompletedChild

WorkerOutcome = Literal["complete", "interrupted", "failed", "died", "not begun"]


class Figures(Record):
    """Figures of a worker's session, equal to its report."""

    model: Text | None
    device: str
    batch_size: PositiveInt
    frames: NonNegativeInt
    wall_seconds: NonNegativeFloat
    fps: NonNegativeFloat | None
    """Frames per second after start-up; None: too few steps."""
    service_ms: NonNegativeFloat | None
    """Median work per step, in milliseconds."""
    latency_base: Text | None
    """Start of latency; None: full speed, without latency."""
    latency_ms: float | None
    """Median latency."""
    latency_ms_p95: float | None
    """None: fewer than 90 steps."""
    work_ms: dict[Role, NonNegativeFloat]
    """Role → mean milliseconds of work per frame, in pipeline order."""
    usage: Usage | None
    others_cpu_share: Share | None = None
    """Share of other programs (and other workers) in the CPU time of its cores; None: unknown."""
    dropped: NonNegativeInt
    """Dropped items."""
    lost: NonNegativeInt
    """Damaged frames."""
    lost_videos: NonNegativeInt = 0
    """Skipped videos."""
    finding: Text
    """Bottleneck, in one sentence."""
    change: Text | None
    """Advised change."""

    @classmethod
    def of(cls, session: Session, others_cpu_share: float | None) -> Self:
        """Compute the figures of a session.

        Args:
            session: Session of the worker; in it, other workers count as other programs.
            others_cpu_share: Share of programs outside the launch, for the finding.
        """
        metrics = Metrics.of(session)
        findings = find(session.model_copy(update={"others_cpu_share": others_cpu_share}))
        bounds = [finding for finding in findings if finding.bound_by]
        stages = [finding for finding in bounds if finding.bound_by != ("start-up",)]
        shown = [*stages, *bounds, *findings][0]
        latency, service = metrics.latency, metrics.service_ms
        roles = metrics.cost.roles if metrics.cost else {}
        return cls(
            model=session.setup.model,
            device=session.setup.device,
            batch_size=session.setup.batch_size,
            frames=sum(session.steps.frames),
            wall_seconds=session.wall_seconds,
            fps=metrics.fps_mean,
            service_ms=service.p50 if service else None,
            latency_base=latency.base if latency else None,
            latency_ms=latency.ms.p50 if latency else None,
            latency_ms_p95=latency.ms.p95 if latency else None,
            work_ms={role: ms * metrics.steps / metrics.frames for role, ms in roles.items()},
            usage=session.usage,
            others_cpu_share=session.others_cpu_share,
            dropped=session.items.dropped if session.items else 0,
            lost=sum(loss.index is not None for loss in session.lost),
            lost_videos=sum(loss.index is None for loss in session.lost),
            finding=shown.headline,
            change=shown.change,
        )


class LaunchWorkerRecord(Record):
    """Outcome of one worker."""

    name: str
    folder: Text
    """Folder of its run."""
    command: CommandLine
    """Command that runs only this worker."""
    outcome: WorkerOutcome
    error: Text | None = None
    """Reason of a failure, crash or missing start, in one line."""
    last_lines: tuple[Text, ...] = ()
    """Last output lines, after a failure or crash."""
    exit_code: int | None = None
    """Negative: ended by a signal; None: not started."""
    ready_seconds: NonNegativeFloat | None = None
    """Time from the start of the launch until the worker was loaded and warm."""
    began_ms: NonNegativeFloat | None = None
    """Delay of its start after the start of the first worker."""
    figures: Figures | None = None
    """None: no session."""

    @property
    def is_good(self) -> bool:
        """Whether the worker completed."""
        return self.outcome == "complete"


class LaunchRecord(Record):
    """Outcome of a launch."""

    version: PositiveInt = 1
    """Version of this layout."""
    provenance: Provenance
    workers: tuple[LaunchWorkerRecord, ...]
    others_cpu_share: Share | None = None
    """Share of programs outside the launch in the CPU time used during it; None: unknown."""

    @property
    def start_spread_ms(self) -> float | None:
        """Time from the first start of a worker to the last; None: fewer than two started."""
        starts = [worker.began_ms for worker in self.workers if worker.began_ms is not None]
        return max(starts) if len(starts) > 1 else None

    @property
    def together_seconds(self) -> float | None:
        """Time in which all started workers ran; None: fewer than two have figures."""
        spans = [
            (worker.began_ms / 1e3, worker.began_ms / 1e3 + worker.figures.wall_seconds)
            for worker in self.workers
            if worker.began_ms is not None and worker.figures is not None
        ]
        if len(spans) < 2:
            return None
        return max(0.0, min(end for _, end in spans) - max(start for start, _ in spans))

    @property
    def longest_seconds(self) -> float:
        """Duration of the longest run."""
        return max(
            (worker.figures.wall_seconds for worker in self.workers if worker.figures), default=0.0
        )


def describe_exit(worker: LaunchWorkerRecord) -> str:
    """Return a phrase on the end of a worker, to follow its name."""
    match worker.outcome:
        case "died":
            return f"was {worker.error}" if (worker.exit_code or 0) < 0 else f"died: {worker.error}"
        case "not begun":
            return f"did not start: {worker.error}"
        case _:
            return f"{worker.outcome}: {worker.error}"


def failed_workers(workers: Iterable[LaunchWorkerRecord]) -> list[LaunchWorkerRecord]:
    """Return the workers that failed, died or did not start, without interrupted ones."""
    return [worker for worker in workers if worker.outcome in ("failed", "died", "not begun")]


_LAST_LINES: Final = 8
"""Max output lines in the record."""
_ERROR_PREFIX: Final = "headrace: "
"""Prefix of an error line in the output of a run."""


def worker_exit(
    session: Session | None,
    ending: CompletedChild | None,
    *,
    has_begun: bool,
    is_interrupted: bool,
    broken: Sequence[str],
    folder: Path,
    is_dry: bool = False,
) -> dict[str, Any]:
    """Return `outcome`, `error` and `last_lines` of a worker's record.

    Args:
        session: Session of the worker; None: missing.
        ending: End of its process; None: stopped, because another worker could not start.
        has_begun: Whether its run started; False with `--dry-run`.
        is_interrupted: Whether the launch was interrupted.
        broken: Names of the workers that failed before the start.
        folder: Folder of its results.
        is_dry: Whether it ran with `--dry-run`.
    """
    is_good = ending is not None and ending.exit_code in (0, NOT_ALL)
    is_killed = ending is not None and (ending.exit_code or 0) < 0
    if ending is not None and is_killed and not is_interrupted:
        steps = 0 if session is None else len(session.steps)
        progress = f"{counted(steps, 'step')}; its results are in {folder}"
        words = killed_words(ending.exit_code)
        return {
            "outcome": "died" if has_begun else "failed",
            "error": f"{words} after {progress}" if steps else f"{words} before its first record",
            "last_lines": _lines(ending),
        }
    if session is not None:
        if session.outcome != "complete" or is_good:
            shown = _lines(ending) if session.outcome == "failed" else ()
            return {"outcome": session.outcome, "error": session.error, "last_lines": shown}
        return _failed_exit("failed", ending)
    if is_dry and is_good:
        return {"outcome": "complete"}
    if is_interrupted:
        return {"outcome": "interrupted"}
    if ending is None:
        others = ", ".join(broken) or "another worker"
        error = f"it waited for {others}, which could not start"
        return {"outcome": "not begun", "error": error}
    return _failed_exit("died" if has_begun else "failed", ending)


def killed_words(exit_code: int | None) -> str:
    """Return `killed (signal 9, SIGKILL)` for the exit code of a process that a signal ended."""
    number = -(exit_code or 0)
    try:
        name = f", {signal.Signals(number).name}"
    except ValueError:
        name = ""
    return f"killed (signal {number}{name})"


def _failed_exit(outcome: WorkerOutcome, ending: CompletedChild | None) -> dict[str, Any]:
    error, lines = _exit_reason(ending), _lines(ending)
    is_repeated = lines == (f"{_ERROR_PREFIX}{error}",)
    return {"outcome": outcome, "error": error, "last_lines": () if is_repeated else lines}


def _lines(ending: CompletedChild | None) -> tuple[str, ...]:
    tail = ending.tail if ending else ""
    return tuple(line for line in tail.splitlines() if line.strip())[-_LAST_LINES:]


def _exit_reason(ending: CompletedChild | None) -> str:
    """Return the worker's last error line; without one, the end of its process."""
    errors = [line for line in _lines(ending) if line.startswith(_ERROR_PREFIX)]
    if errors:
        return errors[-1].removeprefix(_ERROR_PREFIX)
    if ending is None:
        return "it ended without output"
    if ending.exit_code == 0:
        return "it ended without a session"
    return ending.describe()
