"""Session, report and trace of a recorded loop."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final, Literal

from headrace.instrumentation.inside_step import build_inside_step
from headrace.instrumentation.loader_info import LoaderInfo
from headrace.instrumentation.loop_recorder import LoopRecorder, LoopStep
from headrace.instrumentation.timed_worker import IN_LOOP, BatchCost
from headrace.profiling.provenance import record_of
from headrace.profiling.recorder import Recorder
from headrace.profiling.run_records import DecodingRecord, LoaderRecord, Setup
from headrace.profiling.session import Session
from headrace.profiling.stage_records import QueueRecord, StageRecord
from headrace.profiling.steps import Step
from headrace.profiling.trace import NAME, Event, ItemTrace, trace_events, write_trace
from headrace.report.folder import write_run
from headrace.runtime.distribution import Distribution
from headrace.runtime.tracing import TimedRange

FETCH, COLLATE, STEP = "fetch", "collate", "step"
"""Stages: reading samples from the dataset; collating them to a batch; the rest of the step."""
_WAIT: Final = "wait"
"""Range of the loop's wait for a batch."""
MAX_TRACE_STEPS: Final = 10_000
"""Max steps in a trace, the first ones of the loop: about 2 MB."""
_LOOP: Final = "loop"
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
    cost, times = step.cost, {_WAIT: step.waiting, STEP: step.working}
    waits_ns = {name: thread and thread.core_wait_ns for name, thread in times.items()}
    if cost is not None:
        waits_ns |= {FETCH: cost.fetch_core_wait_ns, COLLATE: cost.collate_core_wait_ns}
    known = {name: wait_ns / 1e6 for name, wait_ns in waits_ns.items() if wait_ns is not None}
    return known if len(known) == len(waits_ns) else {}


def _total_ns(step: LoopStep) -> int:
    assert step.end_ns is not None
    return step.end_ns - step.request_ns


def _costs(steps: Sequence[LoopStep]) -> list[BatchCost]:
    return [step.cost for step in steps if step.cost is not None]


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
    costs = _costs(steps)
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
    costs = _costs(measured)
    loop_cpu_ms = fmean(step.cpu_ns for step in measured) / 1e6 if measured else None
    working = [step.working for step in measured if step.working]
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


def trace_loop(steps: Sequence[LoopStep], *, process_id: int, origin_ns: int) -> list[Event]:
    """Return the trace of a loop and its workers, with a range per stage and step.

    An arrow leads from each batch to its step.

    Args:
        steps: Finished steps.
        process_id: Process of the loop.
        origin_ns: Time 0 of the trace.
    """
    steps = steps[:MAX_TRACE_STEPS]
    processes = {
        cost.process_id: f"DataLoader worker {cost.worker}"
        for cost in _costs(steps)
        if cost.process_id is not None
    }
    return trace_events(
        [
            timed_range
            for index, step in enumerate(steps)
            for timed_range in _build_ranges(index, step, process_id)
        ],
        [ItemTrace(number=index, stages=(FETCH, COLLATE, STEP)) for index in range(len(steps))],
        origin_ns=origin_ns,
        processes=processes | {process_id: "training loop"},
    )


def _build_ranges(index: int, step: LoopStep, loop_process: int) -> Iterator[TimedRange]:
    """Yield the ranges of one step."""
    cost = step.cost
    if cost is not None and cost.process_id is not None:
        row = _LOOP if cost.worker == IN_LOOP else f"worker {cost.worker}"
        fetched_ns = cost.ready_ns - cost.collate_ns
        yield _range(cost.process_id, row, FETCH, index, fetched_ns - cost.fetch_ns, fetched_ns)
        yield _range(cost.process_id, row, COLLATE, index, fetched_ns, cost.ready_ns)
    yield _range(loop_process, _LOOP, _WAIT, index, step.request_ns, step.receive_ns)
    end_ns = step.end_ns or step.receive_ns
    yield _range(loop_process, _LOOP, STEP, index, step.receive_ns, end_ns)


def _range(
    process_id: int, row: str, stage: str, index: int, start_ns: int, end_ns: int
) -> TimedRange:
    return TimedRange(
        process_id=process_id,
        thread_id=process_id,
        thread=row,
        stage=stage,
        number=index,
        start_ns=start_ns,
        end_ns=end_ns,
    )
