"""Did a training loop spend its time on starting its loader, epoch by epoch?"""

from typing import Final

from headrace.profiling.findings.finding import Change, Finding, counted, percent
from headrace.profiling.findings.loop_load import LoopLoad
from headrace.profiling.session import Session

_MUCH: Final = 0.5
"""Share of the time from which start-up sets the pace."""
_NOTABLE: Final = 0.1
"""Share from which it is worth a word where workers are started for each epoch anew."""


def loader_start(session: Session) -> Finding | None:
    """Return a finding where much of the time passed before the first batches of the epochs."""
    loader = session.loader
    if loader is None or not loader.start_seconds:
        return None
    starts = sum(loader.start_seconds)
    load = LoopLoad.of(session)
    firsts = sum(session.steps.work_ms["step"][step] for step in loader.first_steps) / 1e3
    flowing = firsts + (load.total_ms * load.steps / 1e3 if load else 0.0)
    whole = starts + flowing
    can_live_on = bool(loader.workers) and not loader.has_persistent_workers and loader.epochs > 1
    if starts < (_NOTABLE if can_live_on else _MUCH) * whole:
        return None
    change = _living_on(loader.start_seconds, whole) if can_live_on else None
    is_bound = starts >= _MUCH * whole
    return Finding(
        headline=("Bound by start-up: " if is_bound else "Start-up of the workers: ")
        + f"{starts:.2g} s of {whole:.2g} s ({percent(starts / whole)}) passed until the first "
        f"batch of {counted(loader.epochs, 'epoch')}.",
        bound_by=("start-up",) if is_bound else (),
        change=str(change) if change else "Judge by more steps: start-up is paid once an epoch.",
        advice=change,
    )


def _living_on(starts: tuple[float, ...], whole: float) -> Change:
    """Only the first epoch starts workers; what is left of the others is a wait for a batch."""
    saved = sum(starts[1:])
    return Change(
        words="persistent_workers=True",
        gain=whole / max(1e-6, whole - saved),
        rests_on=f"{saved:.2g} s were spent on starting workers again",
    )
