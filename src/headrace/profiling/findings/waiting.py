"""Does a training loop wait for its data, or the data for the loop?"""

from collections.abc import Iterator
from typing import Final

from headrace.profiling.findings.finding import Bound, Change, Finding, counted, percent
from headrace.profiling.findings.loader_changes import best_loader_change
from headrace.profiling.findings.loop_load import LoopLoad
from headrace.profiling.findings.pace import ENOUGH_STEPS
from headrace.profiling.session import Session

WAITING: Final = 0.1
"""Share of the time from which a loop waits for its data."""
_SATURATED: Final = 0.8
"""Share of the time at work from which workers set the pace."""
_MOSTLY: Final = 0.5
_ALL: Final = 0.9
"""Of the cores, from which none is left."""


def waiting(session: Session) -> Finding | None:
    """Return which of them waits, and for how long; None where no step was measured."""
    load = LoopLoad.of(session)
    if load is None:
        return None
    who = "The GPU" if load.loader.waits_of == "device" else "The loop"
    figures = f"{load.wait_ms:.3g} of the {load.total_ms:.3g} ms of a step"
    if load.waiting < WAITING:
        headline = f"The data waits for the loop: {who.lower().replace('gpu', 'GPU')} waits for "
        headline += f"data {percent(load.waiting)} of the time, {figures}."
        change = _of_step(load)
    else:
        headline = f"{who} waits for data {percent(load.waiting)} of the time: {figures}."
        change = best_loader_change(load)
    return Finding(
        headline=headline,
        bound_by=_bound_by(load),
        evidence=tuple(_evidence(load)),
        change=str(change),
        advice=change,
    )


def _bound_by(load: LoopLoad) -> tuple[Bound, ...]:
    if load.waiting < WAITING:
        return ("model",)
    if load.loader.kind == "headrace":
        return ("decode",)
    if not load.loader.workers:
        makes: Bound = "loading" if load.loader.kind == "DataLoader" else "source"
        return (makes,) if load.waiting >= _MOSTLY else ("model", makes)
    busy, handover = load.workers_busy, load.loader.handover_wait_ms
    if busy is not None and busy < _SATURATED and (handover or 0.0) >= _MOSTLY * load.wait_ms:
        return ("hand-over",)
    return ("loader workers",)


def _of_step(load: LoopLoad) -> Change:
    return Change(
        words="The step itself (model, optimizer, logging)",
        rests_on=f"without any wait for data the loop would be "
        f"{load.total_ms / max(1e-6, load.total_ms - load.wait_ms):.2f} times as fast",
    )


def _evidence(load: LoopLoad) -> Iterator[str]:
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
    yield from _start_evidence(load)
    cores = load.cores_busy
    if cores is not None and cores >= _ALL * load.cores:
        yield (
            f"Loop and workers kept {cores:.1f} of {counted(load.cores, 'core')} busy: what one "
            "gains, another may lose."
        )
    if load.steps < ENOUGH_STEPS:
        yield f"Only {counted(load.steps, 'step')} were measured: a hint, not a measurement."
    if loader.is_cut:
        yield f"There were more steps; the first {load.steps:,} were kept."


def _start_evidence(load: LoopLoad) -> Iterator[str]:
    starts = load.loader.start_seconds
    if len(starts) > 1:
        mean = sum(starts) / len(starts)
        yield f"Apart from that, {len(starts)} epochs took {mean:.2g} s each to their first batch."
    elif starts:
        yield f"Apart from that, {starts[0]:.2g} s until the first batch."
