"""Growth of memory with the steps is found, with the tensors that were kept."""

from itertools import pairwise

import pytest
import torch

from headrace.instrumentation import memory_growth
from headrace.instrumentation.memory_growth import MemoryReadings, Reading, TensorKind

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
def test_only_continuous_growth_counts(host, expected: float | None) -> None:
    growth = readings(host).growth("host")
    if expected is None:
        assert growth is None
    else:
        assert growth == (pytest.approx(expected * MB, rel=0.05), readings(host).readings[30])
    assert readings(host, steps=12).growth("host") is None, "too few readings"


def test_memory_is_read_ten_times_per_second_and_less_often_in_a_long_loop() -> None:
    memory = MemoryReadings()
    for step in range(25_000):
        memory.end_step(step, step * 10_000_000)
    steps = [reading.step for reading in memory.readings]
    assert len(steps) <= 1_000
    assert steps[-1] > 24_900
    assert {later - step for step, later in pairwise(steps)} <= {10, 20, 40}
    assert all(reading.host > 0 and reading.device == 0 for reading in memory.readings)


def test_only_tensors_added_during_the_growth_are_kept_ones() -> None:
    model = [torch.zeros(13) for _ in range(200)]
    memory = MemoryReadings([Reading(step, (500 + step) * MB, 0) for step in range(0, 190, 2)])
    memory.readings[-1] = Reading(188, 10**15, 0)  # the next is far below: no growth is seen
    assert not memory.end_step(189, 0)
    del memory.readings[-2:]
    memory.kept_since, memory._counted = 100, memory_growth.count_tensors()
    weight = torch.ones(3, requires_grad=True)
    losses = [(weight * index).sum() for index in range(60)]
    batches = [torch.zeros(7, 11) for _ in range(50)]
    few = [torch.zeros(17) for _ in range(20)]
    memory.end(200)
    assert memory.kept == {
        TensorKind((7, 11), "float32", "cpu", None): len(batches),
        TensorKind((), "float32", "cpu", "SumBackward0"): len(losses),
    }
    assert len(model) + len(few) == 220


def test_without_growth_no_tensors_are_counted() -> None:
    memory = readings(lambda _: 500)
    memory.end(900)
    assert memory.kept is None


def test_tensors_whose_attributes_run_code_are_left_out() -> None:
    sparse = torch.sparse_coo_tensor(
        torch.zeros(1, 1, dtype=torch.long), torch.ones(1), (5,), check_invariants=True
    )
    lazy = torch.nn.parameter.UninitializedBuffer()
    plain = torch.zeros(3, 5, 7, 9)
    counts = memory_growth.count_tensors()
    assert counts[TensorKind(tuple(plain.shape), "float32", "cpu", None)] == 1
    assert not any(kind.shape == (5,) for kind in counts)
    assert lazy.device.type == sparse.device.type == "cpu"


def test_readings_of_a_second_iteration_follow_those_of_the_first() -> None:
    memory, later = readings(lambda _: 500, steps=2), readings(lambda _: 600, steps=2)
    later.kept, later.kept_since = {TensorKind((), "float32", "cpu", None): 20}, 5
    memory.merge(later, first_step=20)
    assert (memory.kept, memory.kept_since) == (later.kept, 25)
    assert [reading.step for reading in memory.readings] == [0, 10, 20, 30]
