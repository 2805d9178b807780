"""Memory that grows with the steps is told, with the tensors that were kept."""

from itertools import pairwise

import pytest
import torch

from headrace.instrumentation.memory_growth import (
    MemoryReadings,
    Reading,
    find_kept_tensors,
)

MB = 1_000_000


def readings(host, steps: int = 90) -> MemoryReadings:
    """Return readings of every tenth step; `host` returns megabytes at a step."""
    return MemoryReadings(
        [Reading(step, round(host(step) * MB), 0) for step in range(0, 10 * steps, 10)]
    )


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (lambda step: 500 + 0.5 * step, 0.5),
        (lambda step: 500 + 0.5 * step + (step // 10) % 3, 0.5),
        (lambda step: 500 + 0.5 * min(step, 250), None),
        (lambda step: 500 + 200 * (step // 10 % 2), None),
        (lambda step: 500 + 300 * (step > 500), None),
        (lambda step: 500 + 0.01 * step, None),
        (lambda step: 9000 + 0.5 * step, None),
        (lambda step: 500 - 0.5 * step, None),
    ],
    ids=["steady", "steps", "start-up", "up and down", "once", "little", "small share", "falls"],
)
def test_growth_is_told_where_it_goes_on(host, expected: float | None) -> None:
    found = readings(host).growth("host")
    assert found == (None if expected is None else pytest.approx(expected * MB, rel=0.05))


def test_few_readings_tell_nothing() -> None:
    assert readings(lambda step: 500 + step, steps=12).growth("host") is None


def test_it_is_read_ten_times_a_second_and_less_often_in_a_long_loop() -> None:
    memory = MemoryReadings()
    for step in range(25_000):
        memory.end_step(step, step * 10_000_000)
    steps = [reading.step for reading in memory.readings]
    assert len(steps) <= 1_000
    assert steps[-1] > 24_900
    assert {later - step for step, later in pairwise(steps)} <= {10, 20, 40}
    assert all(reading.host > 0 and reading.device == 0 for reading in memory.readings)


def test_kept_tensors_are_told_with_the_operation_whose_graph_they_keep() -> None:
    weight = torch.ones(3, requires_grad=True)
    losses = [(weight * index).sum() for index in range(40)]
    batches = [torch.zeros(7, 11) for _ in range(30)]
    few = [torch.zeros(13) for _ in range(5)]
    found = {group.shape: group for group in find_kept_tensors(steps=40)}
    assert (13,) not in found
    assert (found[()].made_by, found[()].tensors) == ("SumBackward0", len(losses))
    assert (found[7, 11].made_by, found[7, 11].tensors) == (None, len(batches))
    assert found[7, 11].dtype == "float32"
    assert found[7, 11].device == "cpu"
    del few


def test_a_second_iteration_goes_on_with_the_steps_of_the_first() -> None:
    memory, later = readings(lambda _: 500, steps=2), readings(lambda _: 600, steps=2)
    memory.merge(later, first_step=20)
    assert [reading.step for reading in memory.readings] == [0, 10, 20, 30]
