"""What the whole would gain if one stage were faster."""

from headrace.profiling.findings.loads import StageLoad


def gain(top: StageLoad, others: list[StageLoad], factor: float) -> float:
    """Times as fast as now, at most, if the stage `top` were `factor` times as fast.

    The next busiest stage sets the pace from there on. At most, because stages that share the
    cores may slow each other down.
    """
    left = max([top.busy / factor, *(load.busy for load in others)])
    return top.busy / left if left else factor
