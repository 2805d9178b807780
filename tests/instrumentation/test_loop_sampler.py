"""A sample has the line of a loop, the part of its step, and whether it waits for the GIL.

The waits for the GIL are the share of these samples in the time in which the thread did not run.
"""

import sys
from functools import partial

import pytest
import torch

from headrace.instrumentation import loop_sampler
from headrace.instrumentation.loop_recorder import LoopRecorder, LoopStep
from headrace.instrumentation.loop_sampler import find_place, take_sample
from headrace.instrumentation.loop_session import build_inside_step
from headrace.instrumentation.step_parts import (
    FORWARD,
    LOADING,
    OPTIMIZER,
    REST,
    PartTotal,
    StepParts,
    StepTotals,
)
from headrace.runtime.clock import CoreTurns, ThreadTimes, this_thread_of_system, thread_sleeps

HERE = "test_loop_sampler.py"


def test_a_sample_belongs_to_the_step_its_part_and_the_users_line() -> None:
    parts, totals = StepParts(), StepTotals()
    take_sample(parts)  # no loop yet
    waiting = parts.wait()
    take_sample(parts)
    totals.add(parts.end(waiting))
    step = parts.begin()
    take_sample(parts)
    parts.enter(FORWARD)
    take_sample(parts)
    line = sys._getframe().f_lineno - 1
    parts.leave(FORWARD)
    totals.add(parts.end(step))
    take_sample(parts)  # no loop any more
    assert totals.samples == {LOADING: 1, REST: 1, FORWARD: 1}
    (place,) = [place for part, place in totals.places if part == FORWARD]
    assert place.location == f"{HERE}:{line}"
    assert place.function == "test_a_sample_belongs_to_the_step_its_part_and_the_users_line"


def test_the_line_is_the_innermost_one_of_the_user() -> None:
    frame = sys._getframe()
    place = find_place(frame)
    assert place is not None
    assert place.location.startswith(f"{HERE}:")
    assert find_place(frame, within=__name__) is None
    assert find_place(None) is None


class OwnOptimizer(torch.optim.SGD):
    def __init__(self, calls_super: bool) -> None:
        super().__init__([torch.ones(1, requires_grad=True)], lr=1)
        self.calls_super, self.take = calls_super, lambda: None

    def step(self):
        if self.calls_super:
            return super().step(self.take)
        return self.take()


@pytest.mark.parametrize("calls_super", [False, True])
def test_a_line_in_the_users_own_optimizer_is_marked(calls_super: bool) -> None:
    """A line that calls an optimizer of PyTorch is not marked."""
    parts, optimizer = StepParts(), OwnOptimizer(calls_super)
    step = parts.begin()
    parts.enter(OPTIMIZER)
    optimizer.take = partial(take_sample, parts)
    optimizer.step()
    assert [sample.place.in_optimizer for sample in step.samples] == [not calls_super]


@pytest.mark.parametrize(
    ("sleeps", "turns", "own_threads", "expected"),
    [
        (True, (7, 8), 0, True),
        (True, (7, 7), 0, False),
        (True, (7, None), 0, False),
        (False, (), 0, None),
        (True, (), 10_000, False),
    ],
    ids=["waits for it", "waits for a disk", "ended", "runs", "no other thread runs Python"],
)
def test_a_thread_that_runs_when_the_gil_is_offered_waited_for_it(
    monkeypatch, sleeps, turns, own_threads, expected
) -> None:
    read = iter([None if count is None else CoreTurns(100, 50, count) for count in turns])
    monkeypatch.setattr(loop_sampler.CoreTurns, "of_thread", lambda *_: next(read))
    monkeypatch.setattr(loop_sampler, "thread_sleeps", lambda _: sleeps)
    monkeypatch.setattr(loop_sampler, "_OWN_THREADS", own_threads)
    parts = StepParts()
    step = parts.begin()
    take_sample(parts)
    assert [sample.awaits_gil for sample in step.samples] == [expected]


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc of Linux")
def test_the_system_has_the_state_and_the_turns_of_a_thread() -> None:
    own = this_thread_of_system()
    assert not thread_sleeps(own)
    assert not thread_sleeps(2**30)
    assert CoreTurns.of_thread(2**30) is None
    before, after = CoreTurns.of_thread(own), CoreTurns.of_thread(own)
    assert before is not None
    assert after is not None
    assert 0 < before.turns <= after.turns


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
