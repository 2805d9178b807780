"""What a model that bound a run would do with other settings, measured after the run."""

from collections.abc import Callable, Iterator
from statistics import median
from typing import Any, Final

import torch

from headrace.models.model import Model
from headrace.profiling.findings.verdict import find
from headrace.profiling.session import Session
from headrace.profiling.setup import Alternative
from headrace.runtime.clock import Clock

_TURNS: Final = 3
"""Turns each setting is measured in at least, between those of the baseline."""
_LARGEST_BATCH: Final = 64
_LEAST_SECONDS, _MOST_SECONDS = 1.0, 2.0
_SHARE: Final = 0.1
"""Of the time of the run."""


def alternatives(
    run: Callable[[torch.Tensor], object],
    frame_shape: tuple[int, ...],
    batch_size: int,
    *,
    budget_seconds: float,
    clock: Clock,
) -> tuple[Alternative, ...]:
    """Return what other batch sizes and numbers of threads bring to a model on the CPU.

    Each is run in turns with the setting as it was, on zeros. What does not fit into the budget is
    left out.

    Args:
        run: The model, for a batch float32 [N, *frame_shape].
        frame_shape: Of one picture or clip.
        batch_size: As it was.
        budget_seconds: Of wall clock, for all together.
        clock: What measures.
    """
    threads = torch.get_num_threads()
    stop_ns = clock.now_ns() + round(budget_seconds * 1e9)

    def seconds(batch: torch.Tensor, number: int) -> float:
        torch.set_num_threads(number)
        began_ns = clock.now_ns()
        run(batch)
        return (clock.now_ns() - began_ns) / 1e9

    found = []
    try:
        base = torch.zeros(batch_size, *frame_shape)
        cost = seconds(base, threads)
        for option, size, number in _settings(batch_size, threads):
            needed = (_TURNS + 1) * cost * (1 + size / batch_size)
            if clock.now_ns() + needed * 1e9 > stop_ns:
                continue
            other = base if size == batch_size else torch.zeros(size, *frame_shape)
            seconds(other, number)  # the first pays for its set-up
            turns = [(seconds(base, threads), seconds(other, number)) for _ in range(_TURNS)]
            found.append(
                Alternative(
                    option=option,
                    ms_per_frame=1e3 * median(after for _, after in turns) / size,
                    baseline_ms_per_frame=1e3 * median(before for before, _ in turns) / batch_size,
                )
            )
    finally:
        torch.set_num_threads(threads)
    return tuple(found)


def _settings(batch_size: int, threads: int) -> Iterator[tuple[str, int, int]]:
    """Yield (option, batch size, threads), the most promising first."""
    for factor in (8, 2):
        if batch_size * factor <= _LARGEST_BATCH:
            yield f"--batch-size {batch_size * factor}", batch_size * factor, threads
    if threads > 1:
        yield "--threads 1", batch_size, 1
    if batch_size >= 32:
        yield f"--batch-size {batch_size // 4}", batch_size // 4, threads


def with_alternatives(session: Session, model: Model[Any], clock: Clock) -> Session:
    """Return the session with other settings tried, where its model bound it on the CPU.

    Cost: a tenth of the time the run took, but one second at least, and two at most.
    """
    is_bound = any("model" in finding.bound_by for finding in find(session))
    # Of a compiled model other batches would be compiled first, which takes longer than the run.
    is_tried = model.compute.device == "cpu" and not model.compute.compile
    if session.outcome != "complete" or not is_tried or not is_bound:
        return session
    found = alternatives(
        model.run,
        model.input.shape(1, (480, 640))[1:],
        session.setup.batch_size,
        budget_seconds=min(_MOST_SECONDS, max(_LEAST_SECONDS, _SHARE * session.wall_seconds)),
        clock=clock,
    )
    return session.model_copy(update={"alternatives": found})
