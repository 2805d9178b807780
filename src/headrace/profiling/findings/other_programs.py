"""Did other programs take the processor meanwhile, and what does that leave of a verdict?"""

from dataclasses import replace
from typing import Final

from headrace.profiling.findings.finding import Finding, percent

QUIET: Final = 0.05
"""Share of the processor time used by others up to which a machine counts as quiet."""
_AS_FAR_AS: Final = ", as far as a busy machine lets one tell"


def is_busy(others_cpu_share: float | None) -> bool:
    """Return whether others used more than 5 % of the processor time that was used."""
    return others_cpu_share is not None and others_cpu_share > QUIET


def busy_banner(others_cpu_share: float | None) -> str | None:
    """Return what stands above a report of a busy machine; None where it was quiet."""
    if others_cpu_share is None or not is_busy(others_cpu_share):
        return None
    return (
        f"Other programs used {percent(others_cpu_share)} of the processor time meanwhile: these "
        "figures are not those of this machine at rest. Run it again when the machine is quiet, "
        "before you act on them."
    )


def worded_by(others_cpu_share: float | None, finding: Finding) -> Finding:
    """Return a finding with its verdict worded by what others took.

    That frames come no faster than they are worked on holds on a busy machine, too.
    """
    if not is_busy(others_cpu_share) or not finding.bound_by or "source" in finding.bound_by:
        return finding
    verdict, colon, figures = finding.headline.partition(": ")
    return replace(finding, headline=f"{verdict}{_AS_FAR_AS}{colon}{figures}")
