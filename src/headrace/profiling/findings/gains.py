"""What the whole would gain if one stage were faster."""

from collections.abc import Sequence

from headrace.profiling.findings.loads import StageLoad
from headrace.profiling.session import Session


def gain(session: Session, top: StageLoad, others: Sequence[StageLoad], factor: float) -> float:
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
