"""A launch as a value: what each worker did, how it ended, and how they went together."""

import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from headrace.profiling.findings.verdict import find
from headrace.profiling.metrics import Metrics
from headrace.profiling.number_format import counted
from headrace.profiling.provenance import CommandLine, Provenance, Record, Text
from headrace.profiling.resource_usage import Usage
from headrace.profiling.session import Session
from headrace.profiling.stage_records import Role, Share
from headrace.runtime.child_spec import CompletedChild

WorkerOutcome = Literal["complete", "interrupted", "failed", "died", "not begun"]


class Figures(Record):
    """What a worker's session comes to; each as in the report of its run."""

    model: Text | None
    device: str
    batch_size: PositiveInt
    frames: NonNegativeInt
    wall_seconds: NonNegativeFloat
    fps: NonNegativeFloat | None
    """Frames per second after start-up; None where too few steps came out."""
    service_ms: NonNegativeFloat | None
    """Median work per step."""
    latency_base: Text | None
    """What latency counts from; None at full speed, where there is none."""
    latency_ms: float | None
    """Median."""
    latency_ms_p95: float | None
    """None with fewer than 90 steps."""
    work_ms: dict[Role, NonNegativeFloat]
    """Role → mean milliseconds of work per frame, in the order the frames take."""
    usage: Usage | None
    others_cpu_share: Share | None = None
    """Of all processor time that was used on its cores, that of other programs, the other workers
    among them; None where the system does not tell."""
    dropped: NonNegativeInt
    """Items that were dropped on their way."""
    lost: NonNegativeInt
    """Frames that were damaged."""
    lost_videos: NonNegativeInt = 0
    """Videos that were left out as a whole."""
    finding: Text
    """What set the pace, in a sentence."""
    change: Text | None
    """What to try next."""

    @classmethod
    def of(cls, session: Session, others_cpu_share: float | None) -> Self:
        """Compute them from a session; the finding is worded by what no worker took.

        Args:
            session: Of the worker, where the other workers are other programs.
            others_cpu_share: That of programs that are none of the workers.
        """
        metrics = Metrics.of(session)
        findings = find(session.model_copy(update={"others_cpu_share": others_cpu_share}))
        telling = [each for each in findings if each.bound_by]
        paces = [each for each in telling if each.bound_by != ("start-up",)]
        shown = [*paces, *telling, *findings][0]
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
            lost=sum(each.index is not None for each in session.lost),
            lost_videos=sum(each.index is None for each in session.lost),
            finding=shown.headline,
            change=shown.change,
        )


class LaunchWorkerRecord(Record):
    """What became of one worker."""

    name: str
    folder: Text
    """Of its run."""
    command: CommandLine
    """What runs it alone."""
    outcome: WorkerOutcome
    error: Text | None = None
    """Why it failed, died or did not begin, in a line."""
    last_lines: tuple[Text, ...] = ()
    """The end of what it printed, where it failed or died."""
    exit_code: int | None = None
    """Negative: the signal that ended it; None: it was not started."""
    ready_seconds: NonNegativeFloat | None = None
    """From the start of the launch until it was loaded and warm."""
    began_ms: NonNegativeFloat | None = None
    """When it began, after the first that did."""
    figures: Figures | None = None
    """None where it left no session."""

    @property
    def is_good(self) -> bool:
        """It did what it was asked for."""
        return self.outcome == "complete"


class LaunchRecord(Record):
    """What became of all of them."""

    version: PositiveInt = 1
    """Of this layout."""
    provenance: Provenance
    workers: tuple[LaunchWorkerRecord, ...]
    others_cpu_share: Share | None = None
    """Of all processor time that was used while it ran, that of programs that are none of its
    workers; None where the system does not tell."""

    @property
    def start_spread_ms(self) -> float | None:
        """How long after the first one the last one began; None where fewer than two did."""
        began = self._began()
        return max(began) if len(began) > 1 else None

    @property
    def together_seconds(self) -> float | None:
        """How long all that began ran at the same time; None where fewer than two are known."""
        spans = [
            (each.began_ms / 1e3, each.began_ms / 1e3 + each.figures.wall_seconds)
            for each in self.workers
            if each.began_ms is not None and each.figures is not None
        ]
        if len(spans) < 2:
            return None
        return max(0.0, min(end for _, end in spans) - max(begin for begin, _ in spans))

    @property
    def longest_seconds(self) -> float:
        """How long the slowest one ran."""
        return max(
            (each.figures.wall_seconds for each in self.workers if each.figures), default=0.0
        )

    def _began(self) -> list[float]:
        return [each.began_ms for each in self.workers if each.began_ms is not None]


def end_words(worker: LaunchWorkerRecord) -> str:
    """Return how a worker ended badly, to stand behind its name."""
    match worker.outcome:
        case "died":
            return f"was {worker.error}" if (worker.exit_code or 0) < 0 else f"died: {worker.error}"
        case "not begun":
            return f"did not begin: {worker.error}"
        case _:
            return f"{worker.outcome}: {worker.error}"


def failed(workers: Iterable[LaunchWorkerRecord]) -> list[LaunchWorkerRecord]:
    """Return those that did not do what they were asked for, but for those that were stopped."""
    return [each for each in workers if each.outcome in ("failed", "died", "not begun")]


_LAST_LINES: Final = 8
_OURS: Final = "headrace: "
"""What a line begins with in which a run says what went wrong."""


@dataclass(frozen=True, kw_only=True)
class WorkerExit:
    """How one worker ended."""

    outcome: WorkerOutcome
    error: str | None = None
    last_lines: tuple[str, ...] = ()


def end_of(
    session: Session | None,
    ending: CompletedChild | None,
    *,
    has_begun: bool,
    is_interrupted: bool,
    broken: Sequence[str],
    folder: Path,
    is_dry: bool = False,
) -> WorkerExit:
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
        return WorkerExit(
            outcome="died" if has_begun and not is_dry else "failed",
            error=f"{words} after {kept}" if steps else f"{words} before its first record",
            last_lines=_lines(ending),
        )
    if session is not None:
        if session.outcome != "complete" or is_good:
            shown = _lines(ending) if session.outcome == "failed" else ()
            return WorkerExit(outcome=session.outcome, error=session.error, last_lines=shown)
        return _badly("failed", ending)
    if is_dry and is_good:
        return WorkerExit(outcome="complete")
    if is_interrupted:
        return WorkerExit(outcome="interrupted")
    if ending is None:
        others = ", ".join(broken) or "another worker"
        return WorkerExit(
            outcome="not begun", error=f"it waited for {others}, which could not begin"
        )
    return _badly("died" if has_begun and not is_dry else "failed", ending)


def killed_words(exit_code: int | None) -> str:
    """Return `killed (signal 9, SIGKILL)` for the exit code of a process that a signal ended."""
    number = -(exit_code or 0)
    try:
        name = f", {signal.Signals(number).name}"
    except ValueError:
        name = ""
    return f"killed (signal {number}{name})"


def _is_killed(ending: CompletedChild) -> bool:
    return ending.exit_code is not None and ending.exit_code < 0


def _badly(outcome: WorkerOutcome, ending: CompletedChild | None) -> WorkerExit:
    error, lines = _why(ending), _lines(ending)
    is_said = lines == (f"{_OURS}{error}",)
    return WorkerExit(outcome=outcome, error=error, last_lines=() if is_said else lines)


def _lines(ending: CompletedChild | None) -> tuple[str, ...]:
    tail = ending.tail if ending else ""
    return tuple(line for line in tail.splitlines() if line.strip())[-_LAST_LINES:]


def _why(ending: CompletedChild | None) -> str:
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
