"""The trace of a loop: a row for each process that makes batches and for the loop, with arrows."""

from collections.abc import Iterator, Sequence
from typing import Final

from headrace.profiling.trace import Event, Journey, trace_events
from headrace.runtime.marks import TimedRange
from headrace.watching.loop import SeenStep
from headrace.watching.recording import COLLATE, FETCH, STEP

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
        [Journey(number=number, stages=(FETCH, COLLATE, STEP)) for number in range(len(kept))],
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
