"""The latest steps: as they were put, and no more than are kept."""

import tracemalloc

from headrace.profiling.latest_steps import LatestSteps
from headrace.profiling.steps import Step


def step(number: int, **given: float) -> Step:
    return Step(
        step=number,
        input=number % 2,
        first_index=7 * number,
        frames=1,
        started_ms=33.3 * number,
        total_ms=20.5,
        work_ms={"decode": 2.5, "model": 12.25 + number},
        **given,
    )


def test_the_last_steps_come_back_as_they_were():
    steps = [step(n, arrived_ms=n + 0.1) if n % 3 else step(n) for n in range(9)]
    kept = LatestSteps(5)
    assert list(kept) == []
    for each in steps:
        kept.append(each)
    assert list(kept) == steps[-5:]
    assert len(kept) == 5


def test_what_is_absent_comes_back_as_absent_and_what_is_there_exactly():
    whole = step(2**40, oldest_arrived_ms=1 / 3, capture_latency_ms=-0.5)
    kept = LatestSteps(2)
    kept.append(whole)
    assert list(kept) == [whole]
    assert whole.arrived_ms is None


def test_a_step_takes_some_hundred_bytes():
    kept = LatestSteps(10_000)
    tracemalloc.start()
    try:
        for number in range(10_000):
            kept.append(step(number))
        assert tracemalloc.get_traced_memory()[0] < 200 * 10_000
    finally:
        tracemalloc.stop()
