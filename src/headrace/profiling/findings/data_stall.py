"""What does a training loop spend its steps on: its start, waiting for data, or the step itself?"""

from collections.abc import Iterator
from typing import Final

from headrace.profiling.findings.bottleneck import ENOUGH_STEPS
from headrace.profiling.findings.finding import Bound, Change, Finding
from headrace.profiling.findings.loader_changes import best_loader_change, is_of_handover
from headrace.profiling.findings.loop_simulation import LoopLoad
from headrace.profiling.number_format import counted
from headrace.profiling.number_format import whole_percent as percent
from headrace.profiling.session import Session

WAITING: Final = 0.1
"""Share of the time from which a loop waits for its data."""
_MOSTLY: Final = 0.5
_LONGEST: Final = 0.1
"""Of the steps, those that an evaluation, or logging every few steps, makes long."""
_COMPUTES: Final = 0.9
_IDLES: Final = 0.5
"""Cores that the loop's process keeps busy: from the first on it computes, up to the second it
mostly waits."""
_ALL: Final = 0.9
"""Of the cores, from which none is left."""


def waiting(session: Session) -> tuple[Finding, ...]:
    """Return what the time of a step goes into, the largest part first; none without a step.

    Waiting for data comes as a finding of its own where it takes a tenth of the time.
    """
    load = LoopLoad.of(session)
    if load is None:
        return ()
    if load.waiting >= _MOSTLY:
        return (_of_wait(load),)
    if load.waiting >= WAITING:
        return (_of_step(load), _of_wait(load))
    return (_of_step(load),)


def _of_step(load: LoopLoad) -> Finding:
    rest = load.total_ms - load.wait_ms
    most = load.total_ms / max(1e-6, rest)
    # Handing batches over slows the step, too: without workers more than the wait may go.
    is_known = load.waiting < WAITING or not is_of_handover(load)
    change = Change(
        words="A cheaper step (model, optimizer, logging, evaluation)",
        rests_on=f"no setting of the loader brings more than {most:.2f} times"
        if is_known
        else None,
    )
    evidence = [*_step_evidence(load)]
    if load.waiting < WAITING:
        evidence += [
            f"{_who(load)} waits for data {percent(load.waiting)} of the time.",
            *_loading_evidence(load),
            *_length_evidence(load),
        ]
    return Finding(
        headline=f"The step itself takes {percent(1 - load.waiting)} of the time: {rest:.3g} of "
        f"the {load.total_ms:.3g} ms of a step lie outside loading.",
        bound_by=("step",),
        evidence=tuple(evidence),
        advice=change,
    )


def _of_wait(load: LoopLoad) -> Finding:
    change = best_loader_change(load)
    return Finding(
        headline=f"{_who(load)} waits for data {percent(load.waiting)} of the time: "
        f"{load.wait_ms:.3g} of the {load.total_ms:.3g} ms of a step.",
        bound_by=(_bound_by(load),) if load.waiting >= _MOSTLY else (),
        evidence=(*_loading_evidence(load), *_length_evidence(load)),
        advice=change,
    )


def _who(load: LoopLoad) -> str:
    return "The GPU" if load.loader.waits_of == "device" else "The loop"


def _bound_by(load: LoopLoad) -> Bound:
    if load.loader.kind == "headrace":
        return "decode"
    if not load.loader.workers:
        return "loading" if load.loader.kind == "DataLoader" else "source"
    return "hand-over" if is_of_handover(load) else "loader workers"


def _step_evidence(load: LoopLoad) -> Iterator[str]:
    """What is known of the time outside loading: whether it computes, and whether it is even."""
    rest = load.total_ms - load.wait_ms
    if load.loader.loop_cpu_ms is not None and rest:
        cores = load.loader.loop_cpu_ms / rest
        how = ""
        if cores >= _COMPUTES:
            how = ": it computes"
        elif cores <= _IDLES:
            how = ": it mostly waits, as for a GPU, a disk or a network"
        yield f"The loop's process keeps {cores:.1f} cores busy meanwhile{how}."
    longest = sorted(load.rest, reverse=True)[: max(1, round(_LONGEST * load.steps))]
    share = sum(longest) / max(1e-6, sum(load.rest))
    if share >= _MOSTLY:
        yield (
            f"The longest tenth of the steps takes {percent(share)} of it: something is done every "
            "few steps, as logging or an evaluation."
        )


def _loading_evidence(load: LoopLoad) -> Iterator[str]:
    loader = load.loader
    if load.batch_ms is not None:
        parts = f"fetch {load.fetch_ms:.3g}, collate {load.collate_ms:.3g}"
        if loader.workers:
            busy = percent(load.workers_busy or 0.0)
            yield (
                f"A batch takes {load.batch_ms:.3g} ms of a worker ({parts}); "
                f"{counted(loader.workers, 'worker')}, at work {busy} of the time."
            )
        else:
            yield (
                f"A batch takes {load.batch_ms:.3g} ms ({parts}), which the loop spends itself: "
                "num_workers=0."
            )
    elif loader.kind == "DataLoader":
        yield "What its workers do is not seen: they were started before the loop was observed."
    if loader.late_share is not None:
        yield f"{percent(loader.late_share)} of the batches were not made yet when asked for."
    if loader.handover_wait_ms is not None and load.waiting >= WAITING:
        yield (
            f"Of the wait, {loader.handover_wait_ms:.3g} ms were for a batch that was made, and on "
            "its way from its worker."
        )


def _length_evidence(load: LoopLoad) -> Iterator[str]:
    yield from _start_evidence(load)
    cores = load.cores_busy
    if cores is not None and cores >= _ALL * load.cores:
        yield (
            f"Loop and workers kept {cores:.1f} of {counted(load.cores, 'core')} busy: what one "
            "gains, another may lose."
        )
    if load.steps < ENOUGH_STEPS:
        yield f"Only {counted(load.steps, 'step')} were measured: a hint, not a measurement."
    if load.loader.is_cut:
        yield f"There were more steps; the first {load.steps:,} were kept."


def _start_evidence(load: LoopLoad) -> Iterator[str]:
    starts = load.loader.start_seconds
    if len(starts) > 1:
        mean = sum(starts) / len(starts)
        yield f"Apart from that, {len(starts)} epochs took {mean:.2g} s each to their first batch."
    elif starts:
        yield f"Apart from that, {starts[0]:.2g} s until the first batch."


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
