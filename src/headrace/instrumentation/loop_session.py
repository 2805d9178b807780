"""From what a loop did to its session."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from headrace.instrumentation.loader_info import LoaderFacts
from headrace.instrumentation.loop_recorder import LoopRecorder, SeenStep
from headrace.profiling.recorder import Recorder
from headrace.profiling.run_records import LoaderRecord, Setup
from headrace.profiling.session import Session
from headrace.profiling.stage_records import QueueRecord, Role, StageRecord
from headrace.profiling.steps import Step
from headrace.profiling.trace import NAME, Event, ItemTrace, trace_events, write_trace
from headrace.report.folder import write_run
from headrace.runtime.distribution import Distribution
from headrace.runtime.tracing import TimedRange

MOST_STEPS: Final = 10_000
"""Steps in a trace, the first ones: some 2 MB."""
_WAIT: Final = "wait"
_LOOP: Final = "loop"


def loop_events(seen: Sequence[SeenStep], *, process_id: int, origin_ns: int) -> list[Event]:
    """Return what a loop and its workers did as a trace, a range called after its step.

    An arrow leads from each batch, where it was made, to the step that took it.

    Args:
        seen: The steps, whose ends are known.
        process_id: Of the loop.
        origin_ns: What the trace counts from.
    """
    kept = seen[:MOST_STEPS]
    made = {each.process_id: f"DataLoader worker {each.worker}" for each in kept}
    processes = {process: name for process, name in made.items() if process is not None}
    return trace_events(
        [each for number, step in enumerate(kept) for each in _ranges(number, step, process_id)],
        [ItemTrace(number=number, stages=(FETCH, COLLATE, STEP)) for number in range(len(kept))],
        origin_ns=origin_ns,
        processes=processes | {process_id: "training loop"},
    )


def _ranges(number: int, step: SeenStep, loop: int) -> Iterator[TimedRange]:
    """Yield what was done for one step."""
    known = step.process_id, step.fetch_ns, step.collate_ns, step.made_ns
    match known:
        case (int(process), int(fetch_ns), int(collate_ns), int(made_ns)):
            row = _LOOP if step.worker is None else f"worker {step.worker}"
            fetched_ns = made_ns - collate_ns
            yield _range(process, row, FETCH, number, fetched_ns - fetch_ns, fetched_ns)
            yield _range(process, row, COLLATE, number, fetched_ns, made_ns)
    yield _range(loop, _LOOP, _WAIT, number, step.asked_ns, step.got_ns)
    yield _range(loop, _LOOP, STEP, number, step.got_ns, step.ended_ns or step.got_ns)


def _range(
    process: int, row: str, stage: str, number: int, start_ns: int, end_ns: int
) -> TimedRange:
    return TimedRange(
        process_id=process,
        thread_id=process,
        thread=row,
        stage=stage,
        number=number,
        start_ns=start_ns,
        end_ns=end_ns,
    )


def write_loop(session: Session, watch: LoopRecorder, folder: Path, *, origin_ns: int) -> Session:
    """Write what was recorded of a loop into `folder`; return the session with the files' names.

    Args:
        session: What it came to.
        watch: What it did.
        folder: Is there.
        origin_ns: What its trace counts from.

    Raises:
        ConfigError: the folder cannot be written.
    """
    events = loop_events(watch.finished(), process_id=os.getpid(), origin_ns=origin_ns)
    write_trace(folder / NAME, events)
    outputs = (*session.outputs, NAME)
    return write_run(session.model_copy(update={"outputs": outputs}), folder)


FETCH, COLLATE, STEP = "fetch", "collate", "step"
"""What the dataset does, what makes a batch of samples, and all else that the loop does."""
_AWAITED: Final = 0.25
"""Share of a batch's way in which the loop waited for it; of one that lay ready it is less."""


def session_of(
    recorder: Recorder, watch: LoopRecorder, facts: LoaderFacts, **known: Any
) -> Session:
    """Return the session of a loop.

    Args:
        recorder: Begun when the loop was first watched.
        watch: What it did.
        facts: What its loader tells of itself.
        known: Fields of the session in place of the recorder's own.
    """
    seen = watch.finished()
    waits = _Waits(watch, seen)
    recorder.steps = [
        _step(number, each, waits, recorder.start_ns, facts) for number, each in enumerate(seen)
    ]
    parts: dict[str, Any] = {
        "setup": Setup(batch_size=facts.batch_size or _batch_size(seen)),
        "usage": None,
        "warmup_steps": 1 if len(seen) > 1 else 0,
        "stages": _stages(seen, waits, facts),
        "queues": _queues(seen, facts),
        "loader": _loader(watch, seen, waits, facts),
    }
    return recorder.session(**{**parts, **known})


class _Waits:
    """How long was waited before each step: by the GPU where it was seen, else by the loop."""

    def __init__(self, watch: LoopRecorder, seen: Sequence[SeenStep]) -> None:
        places = {id(each): place for place, each in enumerate(watch.seen)}
        self._device = watch.device.milliseconds
        self._places = [places[id(each)] for each in seen]
        # The first of each epoch has nothing of the epoch before it.
        measured = [p for p, t in zip(self._places, seen, strict=True) if not t.is_first]
        self.are_of_device = bool(measured) and all(place in self._device for place in measured)

    def ms(self, number: int, each: SeenStep) -> float:
        """Return the wait of one step."""
        waited = (each.got_ns - each.asked_ns) / 1e6
        if self.are_of_device and not each.is_first:
            return min(waited, self._device[self._places[number]])
        return waited


def _step(number: int, each: SeenStep, waits: _Waits, began_ns: int, facts: LoaderFacts) -> Step:
    assert each.ended_ns is not None
    total_ms = (each.ended_ns - each.asked_ns) / 1e6
    work = {STEP: max(0.0, total_ms - waits.ms(number, each))}
    if each.fetch_ns is not None and each.collate_ns is not None:
        work = {FETCH: each.fetch_ns / 1e6, COLLATE: each.collate_ns / 1e6, **work}
    return Step(
        step=number,
        first_index=0,
        frames=max(1, each.samples or facts.batch_size or 1),
        started_ms=max(0.0, (each.asked_ns - began_ns) / 1e6),
        work_ms=work,
        total_ms=total_ms,
    )


def _stages(seen: Sequence[SeenStep], waits: _Waits, facts: LoaderFacts) -> tuple[StageRecord, ...]:
    """What makes batches, where that is seen, and the rest of the loop."""
    seconds = sum((each.ended_ns or 0) - each.asked_ns for each in seen) / 1e9
    waited = sum(waits.ms(number, each) for number, each in enumerate(seen)) / 1e3
    made: list[StageRecord] = []
    if seen and all(each.fetch_ns is not None for each in seen):
        workers = max(1, facts.workers or 0)
        fetch = sum(each.fetch_ns or 0 for each in seen) / 1e9
        collate = sum(each.collate_ns or 0 for each in seen) / 1e9
        idle = max(0.0, workers * seconds - fetch - collate)
        busy: tuple[tuple[str, Role, float], ...] = (
            (FETCH, "decode", fetch),
            (COLLATE, "preprocess", collate),
        )
        made = [
            StageRecord(
                name=name,
                role=role,
                workers=workers,
                items=len(seen),
                busy_seconds=spent,
                starved_seconds=0.0,
                blocked_seconds=idle,
            )
            for name, role, spent in busy
        ]
    step = StageRecord(
        name=STEP,
        role="model",
        workers=1,
        items=len(seen),
        busy_seconds=max(0.0, seconds - waited),
        starved_seconds=waited,
        blocked_seconds=0.0,
    )
    return (*made, step) if seen else ()


def _queues(seen: Sequence[SeenStep], facts: LoaderFacts) -> tuple[QueueRecord, ...]:
    """The queue of a DataLoader with workers, as each request found it."""
    ready = [each.ready for each in seen if each.ready is not None]
    capacity = facts.capacity
    if not ready or capacity is None:
        return ()
    lain = [max(0, each.got_ns - each.made_ns) / 1e6 for each in seen if each.made_ns is not None]
    wait = Distribution.of(lain)
    return (
        QueueRecord(
            name="workers",
            feeds=STEP,
            capacity=capacity,
            puts=len(seen),
            gets=len(seen),
            elapsed_seconds=sum((each.ended_ns or 0) - each.asked_ns for each in seen) / 1e9,
            occupancy_mean=min(1.0, sum(ready) / len(ready) / capacity),
            occupancy_max=min(1.0, max(ready) / capacity),
            starved_seconds=sum(each.got_ns - each.asked_ns for each in seen) / 1e9,
            blocked_seconds=0.0,
            wait_ms_p50=wait.p50 if wait else None,
            wait_ms_p95=wait.p95 if wait else None,
        ),
    )


def _loader(
    watch: LoopRecorder, seen: Sequence[SeenStep], waits: _Waits, facts: LoaderFacts
) -> LoaderRecord:
    measured = [each for each in seen if not each.is_first]
    batch_ns = _mean([each.batch_processor_ns for each in measured])
    loop_ns = _mean([each.processor_ns for each in measured])
    if loop_ns is not None and not facts.workers:
        loop_ns = max(0.0, loop_ns - (batch_ns or 0.0))
    late = [each.made_ns > each.asked_ns for each in measured if each.made_ns is not None]
    handed = [(each, each.made_ns) for each in measured if each.made_ns is not None]
    if not facts.workers:
        handed = []
    ways = [each.got_ns - made for each, made in handed if _was_awaited(each, made)]
    waits_ns = [each.got_ns - max(made, each.asked_ns) for each, made in handed]
    return LoaderRecord(
        name=facts.name,
        kind=facts.kind,
        dataset=facts.dataset,
        workers=facts.workers,
        prefetch_factor=facts.prefetch_factor,
        has_persistent_workers=facts.has_persistent_workers,
        epochs=len(watch.start_seconds),
        first_steps=tuple(number for number, each in enumerate(seen) if each.is_first),
        start_seconds=tuple(watch.start_seconds),
        waits_of="device" if waits.are_of_device else "loop",
        loop_cpu_ms=None if loop_ns is None else loop_ns / 1e6,
        batch_cpu_ms=None if batch_ns is None else batch_ns / 1e6,
        late_share=sum(late) / len(late) if late and facts.workers else None,
        handover_ms=max(0.0, sum(ways) / len(ways) / 1e6) if ways else None,
        handover_wait_ms=max(0.0, sum(waits_ns) / len(waits_ns) / 1e6) if waits_ns else None,
        batch_bytes=watch.batch.num_bytes if watch.batch else None,
        has_float32=bool(watch.batch and watch.batch.has_float32),
        is_cut=watch.is_cut,
    )


def _was_awaited(each: SeenStep, made_ns: int) -> bool:
    """Whether a batch came while the loop waited for it, and had not lain ready."""
    return each.got_ns - each.asked_ns >= _AWAITED * (each.got_ns - made_ns)


def _mean(values: Sequence[int | None]) -> float | None:
    """None where one is missing, or all are."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _batch_size(seen: Sequence[SeenStep]) -> int:
    return max([each.samples or 1 for each in seen], default=1)
