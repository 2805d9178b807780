"""How busy each stage was while frames flowed, and what the whole gains where one is faster."""

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.profiling.session import Session
from headrace.profiling.stage_records import QueueRecord, Role, StageRecord


@dataclass(frozen=True, kw_only=True)
class StageUtilization:
    """How busy one stage was while frames flowed."""

    name: str
    role: Role
    workers: int
    busy: float
    """Share in [0, 1] of the time from the first step's start to the last step's output, mean
    over its workers. The stage near 1 sets the pace."""
    starved: float
    """Share of the same time without input: what comes before is slower."""
    blocked: float
    """Share of the same time without room: what comes after is slower."""

    @property
    def rest(self) -> float:
        """Share of the same time in which it had not begun or had no more to do; threads that
        decode also wait for their turn in it."""
        return max(0.0, 1.0 - self.busy - self.starved - self.blocked)


def stage_loads(session: Session) -> tuple[StageUtilization, ...]:
    """How busy each stage was, in the order the frames take; empty without steps."""
    seconds = flow_seconds(session)
    if not seconds:
        return ()
    return tuple(_load(stage, seconds) for stage in session.stages)


def flow_seconds(session: Session) -> float:
    """From the first step's start to the last step's output; 0 without steps."""
    steps = session.steps
    if not len(steps):
        return 0.0
    return (steps.started_ms[-1] + steps.total_ms[-1] - steps.started_ms[0]) / 1e3


def occupancy(queue: QueueRecord, session: Session) -> float:
    """Mean share of a queue in use while frames flowed; before, it was empty."""
    return min(1.0, queue.occupancy_mean * queue.elapsed_seconds / flow_seconds(session))


def _load(stage: StageRecord, seconds: float) -> StageUtilization:
    whole = stage.workers * seconds
    busy = min(1.0, stage.busy_seconds / whole)
    blocked = min(1.0 - busy, stage.blocked_seconds / whole)
    # What it waited for the first step, before frames flowed, is in its record too.
    starved = min(1.0 - busy - blocked, stage.starved_seconds / whole)
    return StageUtilization(
        name=stage.name,
        role=stage.role,
        workers=stage.workers,
        busy=busy,
        starved=starved,
        blocked=blocked,
    )


def gain(
    session: Session, top: StageUtilization, others: Sequence[StageUtilization], factor: float
) -> float:
    """Return how many times as fast as now, if the stage `top` were `factor` times as fast.

    The next busiest stage sets the pace from there on. Where the stages keep more threads busy
    than there are cores, each of them waits for a core too, and it is the cores that are shared
    anew. It is less where a faster stage takes more cores.
    """
    is_shared = session.setup.device == "cpu"
    cores = session.provenance.machine.usable_cores if is_shared else None
    faster = top.busy / factor
    rest = [(load.busy, load.workers) for load in others]
    # Of a stage that waits for cores, that share of its time at work is the wait.
    threads = top.busy * top.workers + sum(busy * workers for busy, workers in rest)
    alone = min(1.0, cores / threads) if cores and threads else 1.0
    now = _pace([(top.busy, top.workers), *rest], alone, cores)
    left = _pace([(faster, top.workers), *rest], alone, cores)
    return now / left if left else factor


def _pace(loads: Sequence[tuple[float, int]], alone: float, cores: int | None) -> float:
    """The time that stages need for what they did, as a share of the time they took."""
    slowest = max(busy for busy, _ in loads)
    shared = sum(busy * workers for busy, workers in loads) / cores if cores else 0.0
    return alone * max(slowest, shared)
