"""All questions put to a session, in the order the answers are read."""

from headrace.profiling.findings.finding import Finding
from headrace.profiling.findings.other_programs import other_programs
from headrace.profiling.findings.pace import pace
from headrace.profiling.findings.source import source
from headrace.profiling.findings.start_up import start_up
from headrace.profiling.findings.too_short import too_short
from headrace.profiling.session import Session


def find(session: Session) -> tuple[Finding, ...]:
    """What the session shows, the most important first; never empty."""
    short = too_short(session)
    if short is not None:
        return (short,)
    pace_set_by = source(session) or pace(session)
    found = (other_programs(session), start_up(session), pace_set_by)
    return tuple(finding for finding in found if finding is not None)
