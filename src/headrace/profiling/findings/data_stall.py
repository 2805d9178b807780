"""Data stalls in a training loop: start-up, waits for data, and the step itself."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from headrace.profiling.findings.bottleneck import ENOUGH_STEPS
from headrace.profiling.findings.finding import Bound, Change, Finding
from headrace.profiling.findings.inside_step import (
    find_step_cause,
    inside_evidence,
    loading_evidence,
)
from headrace.profiling.findings.loader_changes import (
    best_loader_change,
    costliest_part,
    is_bound_by_queue_transfer,
    other_loader,
)
from headrace.profiling.findings.loop_simulation import QUIET, LoopLoad, loop_seconds
from headrace.profiling.number_format import counted, three_digits
from headrace.profiling.number_format import whole_percent as percent
from headrace.profiling.session import Session

WAITING: Final = 0.1
"""Min share of the time for a finding on the wait for data."""
_MAJORITY: Final = 0.5
_CORE_WAITS: Final = 0.4
"""Min share of a step in which it waits for a core, for advice on threads."""
_NOTABLE_WAIT: Final = 0.01
"""Min waits for a core, as a share of the other time, for the headline to state them."""
_TAIL: Final = 0.1
"""Share of the steps that count as the longest."""
_COMPUTING: Final = 0.9
"""Min cores that the loop's process keeps busy if it computes."""
_IDLE: Final = 0.5
"""Max cores that the loop's process keeps busy if it mostly waits."""
_SATURATED: Final = 0.9
"""Min share of busy cores for all cores to count as busy."""


def find_data_stall(session: Session) -> tuple[Finding, ...]:
    """Return the finding on the step or on its wait for data, the larger of both.

    A wait of a tenth to half of the time is a second finding, and so is a setting of the loader if
    the advice on the wait is another loader. Empty without steps.
    """
    load = LoopLoad.of(session)
    if load is None:
        return ()
    if load.waiting >= _MAJORITY:
        return tuple(_describe_wait(load))
    if load.waiting >= WAITING:
        return (_describe_step(load), *_describe_wait(load))
    return (_describe_step(load),)


def _describe_step(load: LoopLoad) -> Finding:
    cause = find_step_cause(load)
    change = _advise_cores(load) or cause.change
    max_gain = load.total_ms / max(1e-6, load.step_ms)
    # Queue transfers also slow the step: without workers, the gain may exceed the wait.
    is_bounded = load.waiting < WAITING or not is_bound_by_queue_transfer(load)
    if is_bounded and change is cause.change and not change.gain:
        bound = f"settings of the loader gain at most {max_gain:.2f} times"
        change = replace(change, evidence=bound)
    evidence = [*inside_evidence(load), *_step_evidence(load)]
    if load.waiting < WAITING:
        evidence += [
            f"{_waiter(load)} waits for data {percent(load.waiting)} of the time.",
            *_loading_evidence(load),
            *_length_evidence(load),
        ]
    return Finding(
        headline=f"The step itself takes {percent(1 - load.waiting)} of the time: "
        f"{_of_step(load, load.step_ms, is_first=True)} are not loading{cause.headline}.",
        bound_by=("step",),
        cause=cause.name,
        evidence=tuple(evidence),
        is_corrected=load.is_corrected,
        advice=change,
    )


def _describe_wait(load: LoopLoad) -> Iterator[Finding]:
    bound, cause = _find_bound(load) if load.waiting >= _MAJORITY else None, ""
    if bound in ("loading", "loader workers") and load.batches:
        cause = costliest_part(load)
    are_waits = " are waits for data" if load.is_corrected and bound else ""
    change, setting = other_loader(load), best_loader_change(load)
    yield Finding(
        headline=f"{_waiter(load)} waits for data {percent(load.waiting)} of the time: "
        f"{_of_step(load, load.wait_ms, is_first=bound is not None)}{are_waits}.",
        bound_by=(bound,) if bound else (),
        cause=cause,
        evidence=(*_loading_evidence(load), *_length_evidence(load)),
        is_corrected=load.is_corrected,
        advice=change or setting,
    )
    if change is not None and setting.options:
        yield Finding(
            headline="If the dataset stays as it is, a setting of its DataLoader helps.",
            advice=setting,
        )


def _of_step(load: LoopLoad, ms: float, *, is_first: bool) -> str:
    """`41 of the 66 ms of a step`.

    If waits for a core are subtracted, the first finding has them too: `a step takes 146 ms, 80 of
    them waiting for a core; of the other 66 ms, 41`.
    """
    total, part = three_digits(load.total_ms), three_digits(ms)
    waited_ms = load.measured_ms - load.total_ms
    if not is_first or waited_ms < _NOTABLE_WAIT * load.total_ms:
        return f"{part} of the {total} ms of a step"
    return (
        f"a step takes {three_digits(load.measured_ms)} ms, {three_digits(waited_ms)} of them "
        f"waiting for a core; of the other {total} ms, {part}"
    )


def _advise_cores(load: LoopLoad) -> Change | None:
    """Return the change for a step that often waits for a core.

    None: it does not, or these waits are subtracted from the figures.
    """
    if load.is_corrected or load.core_waits.get("step", 0.0) < _CORE_WAITS * load.step_ms:
        return None
    threads = (
        f"fewer threads and workers, at most {load.cores} together, one per core "
        "(num_threads, num_workers, torch.set_num_threads)"
    )
    if load.others > QUIET:
        busy = f"other programs used {percent(load.others)} of the CPU time"
        return Change(words=f"Repeat it on a quiet machine ({busy}), or with {threads}")
    return Change(words=f"{threads[0].upper()}{threads[1:]}, or repeat it on a quiet machine")


def _waiter(load: LoopLoad) -> str:
    return "The GPU" if load.loader.waits_of == "device" else "The loop"


def _find_bound(load: LoopLoad) -> Bound:
    if load.loader.kind == "headrace":
        return "decode"
    if not load.loader.workers:
        return "loading" if load.loader.kind == "DataLoader" else "source"
    return "queue transfer" if is_bound_by_queue_transfer(load) else "loader workers"


def _step_evidence(load: LoopLoad) -> Iterator[str]:
    """Yield sentences on the time of a step without its wait: computing or waiting, even or not."""
    shares = _thread_shares(load)
    # The threads of a loader of headrace work in the loop's process, also during waits for data.
    has_threads = load.loader.kind == "headrace"
    if load.loader.loop_cpu_ms is not None and load.step_ms and not has_threads:
        cores = load.loader.loop_cpu_ms / load.step_ms
        activity = ""
        if cores >= _COMPUTING:
            activity = ": it computes"
        elif cores <= _IDLE:
            waits_for_core = shares is not None and shares[1] > shares[2]
            activity = ": it mostly waits, for example for a GPU, a disk or a network"
            if waits_for_core:
                activity = ": it mostly waits for a core"
        yield f"The loop's process keeps {cores:.1f} cores busy during this time{activity}."
    if shares is not None:
        worked, core_wait, other = map(percent, shares)
        yield (
            f"In a step, the loop's thread worked {worked} of the time, waited {core_wait} for a "
            f"core, and {other} for something else: other threads, a device or a disk."
        )
    longest = sorted(load.rest, reverse=True)[: max(1, round(_TAIL * load.steps))]
    share = sum(longest) / max(1e-6, sum(load.rest))
    if share >= _MAJORITY:
        yield (
            f"The longest tenth of the steps takes {percent(share)} of this time: some steps do "
            "more, for example logging or an evaluation."
        )


def _thread_shares(load: LoopLoad) -> tuple[float, float, float] | None:
    """Return the shares of a step in which the loop's thread worked, waited for a core, and waited
    for something else; None: not known."""
    thread_cpu_ms, core_wait_ms = load.loader.thread_cpu_ms, load.core_waits.get("step")
    if thread_cpu_ms is None or core_wait_ms is None:
        return None
    step_ms = load.step_ms + (core_wait_ms if load.is_corrected else 0.0)
    # A wait may be counted in the step after its own.
    step_ms = max(1e-6, step_ms, thread_cpu_ms + core_wait_ms)
    worked, core_wait = thread_cpu_ms / step_ms, core_wait_ms / step_ms
    return worked, core_wait, max(0.0, 1 - worked - core_wait)


def _loading_evidence(load: LoopLoad) -> Iterator[str]:
    loader = load.loader
    if load.batch_ms is not None:
        parts = f"fetch {three_digits(load.fetch_ms)}, collate {three_digits(load.collate_ms)}"
        if loader.workers:
            busy = percent(load.workers_busy or 0.0)
            yield (
                f"A batch takes a worker {three_digits(load.batch_ms)} ms ({parts}); "
                f"{counted(loader.workers, 'worker')}, busy {busy} of the time."
            )
        else:
            yield (
                f"The loop itself loads a batch in {three_digits(load.batch_ms)} ms ({parts}): "
                "num_workers=0."
            )
            yield from loading_evidence(load)
        is_fetch_bound = (load.fetch_ms or 0.0) >= (load.collate_ms or 0.0)
        if loader.decoder and is_fetch_bound and load.waiting >= WAITING:
            yield f"The code of the dataset opens videos with {loader.decoder}."
    elif loader.kind == "DataLoader":
        yield "The cost of batches is not known: workers were started before the profile."
    if loader.late_share is not None:
        yield f"{percent(loader.late_share)} of the batches were not ready when requested."
    if loader.handover_wait_ms is not None and load.waiting >= WAITING:
        yield (
            f"Of the wait, {three_digits(load.sent_ms)} ms were for the transfer of a ready batch "
            "from its worker."
        )
        if load.stalled_ms > load.sent_ms:
            stalled = three_digits(min(load.stalled_ms, load.wait_ms))
            yield (
                f"For {stalled} ms of it, the worker of a ready batch did not send it: it computed "
                "its next batch, in code that holds the GIL, such as a loop in Python."
            )


def _length_evidence(load: LoopLoad) -> Iterator[str]:
    yield from _start_evidence(load)
    if load.is_corrected:
        of_loop = load.core_waits["step"] + load.core_waits["wait"]
        of_workers = load.core_waits["fetch"] + load.core_waits["collate"]
        and_workers = f", {three_digits(of_workers)} ms per batch in a worker"
        yield (
            f"Other programs used {percent(load.others)} of the CPU time. Not included: waits for "
            f"a core, {three_digits(of_loop)} ms per step in the loop"
            f"{and_workers if load.loader.workers else ''}."
        )
    cores = load.cores_busy
    if cores is not None and cores >= _SATURATED * load.cores:
        yield (
            f"Loop and workers kept {cores:.1f} of {counted(load.cores, 'core')} busy: if one gets "
            "faster, the other may get slower."
        )
    if load.steps < ENOUGH_STEPS:
        yield f"Only {counted(load.steps, 'step')} were measured: a hint, not a measurement."
    if load.loader.is_cut:
        yield f"The loop had more steps; the first {load.steps:,} were recorded."


def _start_evidence(load: LoopLoad) -> Iterator[str]:
    starts = load.loader.start_seconds
    if len(starts) > 1:
        mean = sum(starts) / len(starts)
        yield f"Not included: {mean:.2g} s to the first batch of each of {len(starts)} epochs."
    elif starts:
        yield f"Not included: {starts[0]:.2g} s to the first batch."


_BOUND_BY_START: Final = 0.5
"""Min share of the time for a start-up that is the bottleneck."""
_NOTABLE_START: Final = 0.1
"""Min share of the time for a finding on start-up, if workers start for each epoch."""


def find_loader_start(session: Session) -> Finding | None:
    """Return a finding if much of the time passed before the first batch of each epoch."""
    loader = session.loader
    if loader is None or not loader.start_seconds:
        return None
    starts = sum(loader.start_seconds)
    total = loop_seconds(session)
    can_persist = bool(loader.workers) and not loader.has_persistent_workers and loader.epochs > 1
    if starts < (_NOTABLE_START if can_persist else _BOUND_BY_START) * total:
        return None
    change = None
    if can_persist:
        # With persistent workers, later epochs only wait for their first batch.
        saved = sum(loader.start_seconds[1:])
        change = Change(
            words="persistent_workers=True",
            gain=total / max(1e-6, total - saved),
            evidence=f"{saved:.2g} s were spent restarting workers",
            options={"persistent_workers": True},
        )
    is_bound = starts >= _BOUND_BY_START * total
    return Finding(
        headline=("Bound by start-up: " if is_bound else "Start-up of the workers: ")
        + f"{starts:.2g} s of {total:.2g} s ({percent(starts / total)}) passed before the first "
        f"batch of {counted(loader.epochs, 'epoch')}.",
        bound_by=("start-up",) if is_bound else (),
        change=None if change else "Judge by more steps: start-up is paid once per epoch.",
        advice=change,
    )
