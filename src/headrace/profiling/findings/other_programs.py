"""Did other programs take the processor meanwhile?"""

from typing import Final

from headrace.profiling.findings.finding import Finding, percent
from headrace.profiling.session import Session

QUIET: Final = 0.05
"""Share of the processor time used by others up to which a machine counts as quiet."""


def other_programs(session: Session) -> Finding | None:
    """Return a finding where others used more than 5 % of the processor time that was used."""
    share = session.others_cpu_share
    if share is None or share <= QUIET:
        return None
    return Finding(
        headline=f"Other programs used {percent(share)} of the processor time meanwhile: "
        "these figures are not those of this machine at rest.",
        change="Run it again when the machine is quiet, before you act on what follows.",
    )
