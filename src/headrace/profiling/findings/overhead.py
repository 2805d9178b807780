"""Was the time spent between the stages: on Python, and on handing batches over?"""

from typing import Final

from headrace.profiling.findings.finding import Change, Finding, percent
from headrace.profiling.findings.loads import stage_loads
from headrace.profiling.session import Session

LOST: Final = 0.3
"""Share of the time at which no wait and no work accounts for a stage's time."""


def overhead(session: Session, evidence: tuple[str, ...]) -> Finding | None:
    """Return a finding where a stage had input and room, and was not at work, for much of the time.

    Between its steps a thread waits for Python's lock, and hands batches over. Larger batches do
    so less often.

    Args:
        session: What is asked; no stage was busy half of the time.
        evidence: What its loads show.
    """
    loads = stage_loads(session)
    lost = max(1.0 - load.busy - load.starved - load.blocked for load in loads)
    if lost < LOST:
        return None
    batch_size = 2 * session.setup.batch_size
    change = Change(
        words=f"--batch-size {batch_size}: fewer hand-overs between the stages",
        gain=2 / (2 - lost),
        rests_on="half as many of them for the same frames",
        options={"batch_size": batch_size},
    )
    return Finding(
        headline=f"Bound by Python overhead: {percent(lost)} of the time a stage had input and "
        "room, and was not at work.",
        bound_by=("Python overhead",),
        evidence=evidence,
        change=str(change),
        advice=change,
    )
