"""Was there nothing to do, because frames came no faster?"""

from typing import Final

from headrace.profiling.findings.finding import Finding, percent
from headrace.profiling.findings.loads import stage_loads
from headrace.profiling.session import Session

WAITING: Final = 0.5
"""Share of the time without input from which the first stage waits for its source."""


def source(session: Session) -> Finding | None:
    """Return a finding where the first stage waited for frames more than half of the time."""
    loads = stage_loads(session)
    if not loads or loads[0].starved < WAITING or max(load.busy for load in loads) > WAITING:
        return None
    busiest = max(loads, key=lambda load: load.busy)
    return Finding(
        headline="Bound by the source: frames come no faster; "
        f"{loads[0].name} waited for them {percent(loads[0].starved)} of the time.",
        bound_by=("source",),
        evidence=(
            f"The busiest stage, {busiest.name}, worked {percent(busiest.busy)} of the time: "
            f"there is room for {1 / max(busiest.busy, 0.001):.2g} times the frames.",
        ),
    )
