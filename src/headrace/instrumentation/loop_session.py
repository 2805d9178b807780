"""Session, report and trace of a recorded loop, with the parts, lines and memory of its steps."""

import os
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final, Literal

from headrace.instrumentation.dataloader_hook import LoaderInfo
from headrace.instrumentation.loop_recorder import (
    COLLATE,
    FETCH,
    STEP,
    WAIT,
    LoopRecorder,
    LoopStep,
    costs_of,
    trace_loop,
)
from headrace.instrumentation.memory_growth import MemoryReadings
from headrace.instrumentation.step_parts import LOADING, StepTotals
from headrace.profiling.provenance import record_of
from headrace.profiling.recorder import Recorder
from headrace.profiling.run_records import (
    DecodingRecord,
    LoaderRecord,
    QueueRecord,
    Setup,
    StageRecord,
)
from headrace.profiling.session import Session, Step
from headrace.profiling.step_records import (
    MAX_PLACES,
    InsideStep,
    KeptTensors,
    MemoryGrowth,
    StepPart,
    StepPlace,
)
from headrace.profiling.trace import NAME, write_trace
from headrace.report.folder import write_run
from headrace.runtime.distribution import Distribution

_MIN_AWAITED: Final = 0.25
"""Min wait of the loop for a batch, as a share of the time from ready to received; below it, the
batch was in the queue at the request."""


def build_session(
    recorder: Recorder, loop: LoopRecorder, loader: LoaderInfo, **fields: Any
) -> Session:
    """Return the session of a loop.

    Args:
        recorder: Recorder that was created at the start of the profile.
        loop: Record of the loop.
        loader: Properties of its loader.
        fields: Fields of the session that replace those of the recorder.
    """
    steps = loop.finished_steps()
    waits_of, waits_ms = _measure_waits(steps)
    recorder.steps = [
        _build_step(index, step, wait_ms, recorder.start_ns, loader)
        for index, (step, wait_ms) in enumerate(zip(steps, waits_ms, strict=True))
    ]
    batch_size = loader.batch_size or max([step.samples or 1 for step in steps], default=1)
    parts: dict[str, Any] = {
        "setup": Setup(batch_size=batch_size),
        "usage": None,
        "warmup_steps": 1 if len(steps) > 1 else 0,
        "stages": _build_stages(steps, sum(waits_ms) / 1e3, loader),
        "queues": _build_queues(steps, loader),
        "loader": _build_loader(loop, steps, waits_of, loader),
    }
    return recorder.session(**{**parts, **fields})


def _measure_waits(steps: Sequence[LoopStep]) -> tuple[Literal["loop", "device"], list[float]]:
    """Return the kind of the waits, and the milliseconds of the wait before each step.

    They are idle times of the GPU if all steps have one, except the first step of each epoch.
    """
    waits_ms = [(step.receive_ns - step.request_ns) / 1e6 for step in steps]
    later = [step.gpu_idle_ms for step in steps if not step.is_first]
    if not later or None in later:
        return "loop", waits_ms
    return "device", [
        wait_ms if step.is_first else min(wait_ms, step.gpu_idle_ms or 0.0)
        for step, wait_ms in zip(steps, waits_ms, strict=True)
    ]


def _build_step(
    index: int, step: LoopStep, wait_ms: float, start_ns: int, loader: LoaderInfo
) -> Step:
    total_ms = _total_ns(step) / 1e6
    work = {STEP: max(0.0, total_ms - wait_ms)}
    if step.cost is not None:
        work = {FETCH: step.cost.fetch_ns / 1e6, COLLATE: step.cost.collate_ns / 1e6, **work}
    return Step(
        step=index,
        first_index=0,
        frames=max(1, step.samples or loader.batch_size or 1),
        started_ms=max(0.0, (step.request_ns - start_ns) / 1e6),
        work_ms=work,
        core_wait_ms=_core_waits(step),
        total_ms=total_ms,
    )


def _core_waits(step: LoopStep) -> dict[str, float]:
    """Return stage → milliseconds in which its thread waited for a core; empty: one is unknown."""
    cost, times = step.cost, {WAIT: step.waiting, STEP: step.working}
    waits_ns = {name: thread and thread.core_wait_ns for name, thread in times.items()}
    if cost is not None:
        waits_ns |= {FETCH: cost.fetch_core_wait_ns, COLLATE: cost.collate_core_wait_ns}
    known = {name: wait_ns / 1e6 for name, wait_ns in waits_ns.items() if wait_ns is not None}
    return known if len(known) == len(waits_ns) else {}


def _total_ns(step: LoopStep) -> int:
    assert step.end_ns is not None
    return step.end_ns - step.request_ns


def _build_stages(
    steps: Sequence[LoopStep], waited: float, loader: LoaderInfo
) -> tuple[StageRecord, ...]:
    """Return the stages of a loop: fetch and collate if the cost of each batch is known, and step.

    Args:
        steps: Finished steps.
        waited: Sum of all waits, in seconds.
        loader: Properties of the loader.
    """
    if not steps:
        return ()
    total = sum(map(_total_ns, steps)) / 1e9
    stage = StageRecord(
        name=STEP,
        role="model",
        workers=1,
        items=len(steps),
        busy_seconds=max(0.0, total - waited),
        starved_seconds=waited,
        blocked_seconds=0.0,
    )
    costs = costs_of(steps)
    if len(costs) < len(steps):
        return (stage,)
    workers = max(1, loader.workers or 0)
    fetch = sum(cost.fetch_ns for cost in costs) / 1e9
    collate = sum(cost.collate_ns for cost in costs) / 1e9
    shared: dict[str, Any] = {
        "workers": workers,
        "items": len(steps),
        "starved_seconds": 0.0,
        "blocked_seconds": max(0.0, workers * total - fetch - collate),
    }
    return (
        StageRecord(name=FETCH, role="decode", busy_seconds=fetch, **shared),
        StageRecord(name=COLLATE, role="preprocess", busy_seconds=collate, **shared),
        stage,
    )


def _build_queues(steps: Sequence[LoopStep], loader: LoaderInfo) -> tuple[QueueRecord, ...]:
    """Return the queue of a DataLoader with workers, from its depth at each request."""
    ready = [step.ready_batches for step in steps if step.ready_batches is not None]
    capacity = (loader.workers or 0) * (loader.prefetch_factor or 0)
    if not ready or not capacity:
        return ()
    wait = Distribution.of(
        [max(0, step.receive_ns - step.cost.ready_ns) / 1e6 for step in steps if step.cost]
    )
    return (
        QueueRecord(
            name="workers",
            feeds=STEP,
            capacity=capacity,
            puts=len(steps),
            gets=len(steps),
            elapsed_seconds=sum(map(_total_ns, steps)) / 1e9,
            occupancy_mean=min(1.0, sum(ready) / len(ready) / capacity),
            occupancy_max=min(1.0, max(ready) / capacity),
            starved_seconds=sum(step.receive_ns - step.request_ns for step in steps) / 1e9,
            blocked_seconds=0.0,
            wait_ms_p50=wait.p50 if wait else None,
            wait_ms_p95=wait.p95 if wait else None,
        ),
    )


def _build_loader(
    loop: LoopRecorder,
    steps: Sequence[LoopStep],
    waits_of: Literal["loop", "device"],
    loader: LoaderInfo,
) -> LoaderRecord:
    measured = [step for step in steps if not step.is_first]
    costs = costs_of(measured)
    loop_cpu_ms = fmean(step.cpu_ns for step in measured) / 1e6 if measured else None
    working = [step.working for step in measured if step.working]
    waiting = [step.waiting for step in measured if step.waiting]
    is_known = bool(costs) and len(costs) == len(measured)
    batch_cpu_ms = fmean(cost.cpu_ns for cost in costs) / 1e6 if is_known else None
    if loop_cpu_ms is not None and not loader.workers:
        loop_cpu_ms = max(0.0, loop_cpu_ms - (batch_cpu_ms or 0.0))
    from_workers = measured if loader.workers else []
    transfers = [(step, step.cost.ready_ns) for step in from_workers if step.cost]
    decoding = loop.decoding()
    return record_of(
        LoaderRecord,
        loader,
        epochs=len(loop.start_seconds),
        first_steps=tuple(index for index, step in enumerate(steps) if step.is_first),
        start_seconds=tuple(loop.start_seconds),
        waits_of=waits_of,
        loop_cpu_ms=loop_cpu_ms,
        thread_cpu_ms=_mean_ms([times.cpu_ns for times in working]),
        wait_cpu_ms=_mean_ms([times.cpu_ns for times in waiting]),
        batch_cpu_ms=batch_cpu_ms,
        late_share=fmean(ready_ns > step.request_ns for step, ready_ns in transfers)
        if transfers
        else None,
        handover_ms=_mean_ms(
            [
                step.receive_ns - ready_ns
                for step, ready_ns in transfers
                if step.receive_ns - step.request_ns >= _MIN_AWAITED * (step.receive_ns - ready_ns)
            ]
        ),
        handover_wait_ms=_mean_ms(
            [step.receive_ns - max(ready_ns, step.request_ns) for step, ready_ns in transfers]
        ),
        batch_bytes=loop.batch.num_bytes if loop.batch else None,
        has_float32=bool(loop.batch and loop.batch.has_float32),
        is_cut=loop.is_cut,
        decoding=decoding and record_of(DecodingRecord, decoding),
        inside=build_inside_step(loop, measured),
    )


def _mean_ms(times_ns: Sequence[int]) -> float | None:
    return max(0.0, fmean(times_ns) / 1e6) if times_ns else None


def write_loop(session: Session, loop: LoopRecorder, folder: Path, *, origin_ns: int) -> Session:
    """Write session, report and trace of a loop; return the session with the names of the files.

    Args:
        session: Session of the loop.
        loop: Record of the loop.
        folder: An existing folder.
        origin_ns: Time 0 of the trace.

    Raises:
        ConfigError: the folder cannot be written.
    """
    events = trace_loop(loop.finished_steps(), process_id=os.getpid(), origin_ns=origin_ns)
    write_trace(folder / NAME, events)
    outputs = (*session.outputs, NAME)
    return write_run(session.model_copy(update={"outputs": outputs}), folder)


_MIN_SAMPLES: Final = 10
"""Min samples with a known state for an estimate of the waits for the GIL."""


def build_inside_step(loop: LoopRecorder, steps: Sequence[LoopStep]) -> InsideStep | None:
    """Return the record of the steps; None without measured steps.

    Args:
        loop: Recorder of the loop.
        steps: Measured steps.
    """
    totals = loop.inside
    if not steps or not totals.parts:
        return None
    in_steps = totals.samples.total() - totals.samples[LOADING]
    return InsideStep(
        parts=tuple(sorted(_build_parts(totals, steps), key=lambda part: -part.ms)),
        samples=in_steps,
        loading_samples=totals.samples[LOADING],
        places=_find_places(totals, in_steps, is_loading=False),
        loading_places=_find_places(totals, totals.samples[LOADING], is_loading=True),
        growth=tuple(_find_growth(loop.memory)),
        kept=_build_kept(loop.memory),
        kept_since=loop.memory.kept_since,
    )


def _build_parts(totals: StepTotals, steps: Sequence[LoopStep]) -> list[StepPart]:
    count, gil_waits_ns = len(steps), _measure_gil_waits(totals, steps)
    return [
        StepPart(
            name=name,
            steps=part.steps,
            ms=part.wall_ns / 1e6 / count,
            cpu_ms=part.cpu_ns / 1e6 / count,
            device_ms=None if part.device_ms is None else part.device_ms / count,
            gil_wait_ms=gil_waits_ns[name] / 1e6 / count if name in gil_waits_ns else None,
        )
        for name, part in totals.parts.items()
        if name != LOADING
    ]


def _measure_gil_waits(totals: StepTotals, steps: Sequence[LoopStep]) -> dict[str, float]:
    """Return part → time in which the thread waited for the GIL, in ns; empty: not known.

    The estimate is the share of the samples that wait for the GIL, times the time in which the
    thread neither ran nor waited for a core. It is limited to the CPU time of the other threads of
    the process, because the sampler itself takes the GIL.
    """
    parts = {name: part for name, part in totals.parts.items() if name != LOADING}
    times = [(step.cpu_ns, step.waiting, step.working) for step in steps]
    known = [(cpu_ns, a, b) for cpu_ns, a, b in times if a is not None and b is not None]
    off_ns = {name: max(0, part.wall_ns - part.cpu_ns) for name, part in parts.items()}
    if sum(part.gil_samples for part in parts.values()) < _MIN_SAMPLES or not any(off_ns.values()):
        return {}
    core_wait_ns = sum(working.core_wait_ns or 0 for _, _, working in known)
    others_ns = sum(cpu_ns - a.cpu_ns - b.cpu_ns for cpu_ns, a, b in known)
    idle_share = max(0.0, 1 - core_wait_ns / sum(off_ns.values()))
    waits_ns = {
        name: off_ns[name] * idle_share * part.gil_waits / part.gil_samples
        for name, part in parts.items()
        if part.gil_samples
    }
    scale = min(1.0, max(0, others_ns) / max(1.0, sum(waits_ns.values())))
    return {name: scale * wait_ns for name, wait_ns in waits_ns.items()}


def _find_places(totals: StepTotals, samples: int, *, is_loading: bool) -> tuple[StepPlace, ...]:
    places = [
        StepPlace(**place._asdict(), part=part, share=count / samples)
        for (part, place), count in totals.places.most_common()
        if (part == LOADING) == is_loading
    ]
    return tuple(places[:MAX_PLACES])


def _find_growth(memory: MemoryReadings) -> list[MemoryGrowth]:
    places: tuple[Literal["host", "device"], ...] = ("host", "device")
    return [
        MemoryGrowth(
            where=where,
            step_bytes=growth[0],
            first_bytes=getattr(growth[1], where),
            last_bytes=getattr(memory.readings[-1], where),
            first_step=growth[1].step,
            last_step=memory.readings[-1].step,
        )
        for where in places
        if (growth := memory.growth(where))
    ]


def _build_kept(memory: MemoryReadings) -> tuple[KeptTensors, ...] | None:
    if memory.kept is None:
        return None
    return tuple(
        KeptTensors(tensors=count, **kind._asdict()) for kind, count in memory.kept.items()
    )
