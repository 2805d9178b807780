"""All questions put to a session, in the order the answers are read."""

from headrace.profiling.findings.extraction import extraction
from headrace.profiling.findings.finding import Finding
from headrace.profiling.findings.keeping_up import keeping_up
from headrace.profiling.findings.loader_start import loader_start
from headrace.profiling.findings.other_programs import other_programs
from headrace.profiling.findings.pace import pace
from headrace.profiling.findings.source import source
from headrace.profiling.findings.start_up import start_up
from headrace.profiling.findings.too_short import too_short
from headrace.profiling.findings.training import training
from headrace.profiling.findings.waiting import waiting
from headrace.profiling.session import Session


def find(session: Session) -> tuple[Finding, ...]:
    """What the session shows, the most important first; never empty."""
    short = too_short(session)
    if short is not None:
        is_often = session.loader is not None and session.loader.epochs > 1
        begun = loader_start(session) if is_often else None
        return (short,) if begun is None else (begun, short)
    if session.kind == "loader":
        answers = (other_programs(session), loader_start(session), waiting(session))
        return tuple(finding for finding in answers if finding is not None)
    kept_up = keeping_up(session)
    is_enough = kept_up is not None and "source" in kept_up.bound_by
    in_turn = training(session) or extraction(session)
    pace_set_by = None if is_enough else in_turn or source(session) or pace(session)
    found = (other_programs(session), start_up(session), kept_up, pace_set_by)
    return tuple(finding for finding in found if finding is not None)
