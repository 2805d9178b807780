"""Waits for the GIL: the share of the samples, times the time in which the thread did not run."""

import pytest

from headrace.instrumentation.inside_step import build_inside_step
from headrace.instrumentation.loop_recorder import LoopRecorder, LoopStep
from headrace.instrumentation.step_parts import FORWARD, LOADING, REST, PartTotal, StepTotals
from headrace.runtime.clock import ThreadTimes

MS = 1_000_000
STEPS = 10


def step(others_ms: float, core_wait_ms: float) -> LoopStep:
    """Return a step: its thread computes 2 ms during the wait for the batch, and 4 ms after it."""
    return LoopStep(
        **{"request_ns": 0, "receive_ns": MS, "end_ns": 21 * MS},
        **{"is_first": False, "ready_batches": None, "samples": 1},
        cpu_ns=round((6 + others_ms) * MS),
        waiting=ThreadTimes(2 * MS, 0),
        working=ThreadTimes(4 * MS, round(core_wait_ms * MS)),
    )


@pytest.mark.parametrize(
    ("samples", "others_ms", "core_wait_ms", "expected"),
    [
        ({FORWARD: (20, 20)}, 30, 0, {FORWARD: 10, REST: None}),
        ({FORWARD: (20, 10), REST: (20, 0)}, 30, 0, {FORWARD: 5, REST: 0}),
        ({FORWARD: (20, 20), REST: (20, 20)}, 30, 8, {FORWARD: 5, REST: 3}),
        ({FORWARD: (20, 20), REST: (20, 20)}, 4, 0, {FORWARD: 2.5, REST: 1.5}),
        ({FORWARD: (9, 9), LOADING: (50, 50)}, 30, 0, {FORWARD: None, REST: None}),
    ],
    ids=["always", "sometimes", "less waits for a core", "as long as others compute", "few"],
)
def test_waits_are_the_share_of_the_samples(samples, others_ms, core_wait_ms, expected) -> None:
    """The thread does not run in 10 of 12 ms of the forward, and in 6 of 8 ms of the rest."""
    totals = StepTotals()
    for name, wall_ms, cpu_ms in ((FORWARD, 12, 2), (REST, 8, 2), (LOADING, 9, 1)):
        count, waits = samples.get(name, (0, 0))
        times = {"wall_ns": STEPS * wall_ms * MS, "cpu_ns": STEPS * cpu_ms * MS}
        totals.parts[name] = PartTotal(steps=STEPS, gil_samples=count, gil_waits=waits, **times)
    inside = build_inside_step(LoopRecorder(inside=totals), [step(others_ms, core_wait_ms)] * STEPS)
    assert {part.name: part.gil_wait_ms for part in inside.parts} == pytest.approx(expected)
