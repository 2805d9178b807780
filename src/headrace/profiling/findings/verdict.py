"""All questions put to a session, in the order the answers are read."""

from headrace.profiling.findings.extraction import extraction
from headrace.profiling.findings.finding import Finding
from headrace.profiling.findings.keeping_up import keeping_up
from headrace.profiling.findings.loader_start import loader_start
from headrace.profiling.findings.other_programs import worded_by
from headrace.profiling.findings.pace import pace
from headrace.profiling.findings.source import source
from headrace.profiling.findings.start_up import start_up
from headrace.profiling.findings.too_short import too_short
from headrace.profiling.findings.training import training
from headrace.profiling.findings.waiting import waiting
from headrace.profiling.session import Session


def find(session: Session) -> tuple[Finding, ...]:
    """The verdict first, worded by what other programs took, then what else shows; never empty."""
    return tuple(worded_by(session.others_cpu_share, finding) for finding in _found(session))


def _found(session: Session) -> tuple[Finding, ...]:
    short = too_short(session)
    if short is not None:
        is_often = session.loader is not None and session.loader.epochs > 1
        begun = loader_start(session) if is_often else None
        return (short,) if begun is None else (begun, short)
    if session.kind == "loader":
        start = loader_start(session)
        starts = () if start is None else (start,)
        is_bound = start is not None and bool(start.bound_by)
        parts = waiting(session)
        return (*starts, *parts) if is_bound else (*parts, *starts)
    kept_up = keeping_up(session)
    is_enough = kept_up is not None and "source" in kept_up.bound_by
    in_turn = training(session) or extraction(session)
    pace_set_by = None if is_enough else in_turn or source(session) or pace(session)
    found = (start_up(session), kept_up, pace_set_by)
    known = tuple(finding for finding in found if finding is not None)
    return known or (Finding(headline="No time was measured: what bound the run is not known."),)
