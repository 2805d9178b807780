"""A sample has the line of a loop, the part of its step, and whether it waits for the GIL."""

import sys

import pytest

from headrace.instrumentation import loop_sampler
from headrace.instrumentation.loop_sampler import find_place, take_sample
from headrace.instrumentation.step_parts import FORWARD, LOADING, REST, StepParts, StepTotals
from headrace.runtime.clock import CoreTurns, this_thread_of_system, thread_sleeps

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
