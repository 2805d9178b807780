"""What the whole would gain if one stage were faster."""

from headrace.profiling.findings.loads import StageLoad


def gain(top: StageLoad, others: list[StageLoad], factor: float) -> float:
    """Times as fast as now, if the stage `top` were `factor` times as fast.

    The next busiest stage sets the pace from there on. It is more where that one waited for a core
    that is then free, and less where a faster stage takes more cores.
    """
    left = max([top.busy / factor, *(load.busy for load in others)])
    return top.busy / left if left else factor
