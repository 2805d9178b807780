"""A sample tells where a loop is, in which part, and whether it waits for the GIL."""

import sys

import pytest

from headrace.instrumentation import loop_sampler
from headrace.instrumentation.loop_sampler import LoopSampler, find_place
from headrace.instrumentation.step_parts import FORWARD, LOADING, REST, StepParts, StepTotals
from headrace.runtime.clock import CoreTurns, this_thread_of_system, thread_sleeps
from headrace.testing.fake_clock import FakeClock

HERE = "test_loop_sampler.py"
MS = 1_000_000


def test_a_sample_belongs_to_the_step_its_part_and_the_users_line() -> None:
    parts, totals = StepParts(), StepTotals()
    sampler = LoopSampler(parts)
    sampler.sample()  # no loop yet
    waiting = parts.wait()
    sampler.sample()
    totals.add(parts.end(waiting))
    step = parts.begin()
    sampler.sample()
    with parts.part(FORWARD):
        sampler.sample()
        line = sys._getframe().f_lineno - 1
    totals.add(parts.end(step))
    sampler.sample()  # no loop any more
    assert totals.samples == {LOADING: 1, REST: 1, FORWARD: 1}
    (place,) = [place for part, place in totals.places if part == FORWARD]
    assert place.location == f"{HERE}:{line}"
    assert place.function == "test_a_sample_belongs_to_the_step_its_part_and_the_users_line"


def test_the_line_is_the_innermost_of_the_users_and_loading_ends_at_the_fetch() -> None:
    frame = sys._getframe()
    found = find_place(frame)
    assert found is not None
    assert found.location.startswith(f"{HERE}:")
    assert find_place(frame, within=__name__) is None
    assert find_place(None) is None


@pytest.mark.parametrize(
    ("sleeps", "after", "worked", "waited", "expected"),
    [
        (True, 1, 5, 0, 15),
        (True, 1, 5, 5, 10),
        (True, 1, 20, 0, 0),
        (True, 0, 5, 0, 0),
        (False, 1, 5, 0, 0),
    ],
    ids=["waits for it", "and for a core", "ran", "waits for a disk", "runs"],
)
def test_a_thread_that_runs_once_the_gil_is_offered_had_waited_for_it(
    monkeypatch: pytest.MonkeyPatch,
    sleeps: bool,
    after: int,
    worked: int,
    waited: int,
    expected: int,
) -> None:
    """Between two samples 20 ms pass; milliseconds of the loop's thread."""
    clock, parts = FakeClock(), StepParts()
    first = CoreTurns(100 * MS, 50 * MS, 7)
    second = CoreTurns((100 + worked) * MS, (50 + waited) * MS, 9)
    read = iter([first, second, second._replace(turns=9 + after)])
    monkeypatch.setattr(loop_sampler.CoreTurns, "of_thread", lambda *_: next(read))
    answers = iter([False, sleeps])
    monkeypatch.setattr(loop_sampler, "thread_sleeps", lambda _: next(answers))
    sampler, step = LoopSampler(parts, clock), parts.begin()
    sampler.sample()
    clock.advance(0.02)
    sampler.sample()
    assert [sample.gil_wait_ns for sample in step.samples] == [None, expected * MS]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
def test_the_system_tells_whether_a_thread_sleeps_and_what_it_ran() -> None:
    own = this_thread_of_system()
    assert not thread_sleeps(own)
    assert not thread_sleeps(2**30)
    assert CoreTurns.of_thread(2**30) is None
    before, after = CoreTurns.of_thread(own), CoreTurns.of_thread(own)
    assert before is not None
    assert after is not None
    assert 0 < before.turns <= after.turns
