"""Other settings are measured in turns with the one in force, inside a budget."""

from dataclasses import replace

import pytest
import torch

from headrace.models.compute import Compute
from headrace.runs.alternatives import alternatives, with_alternatives
from headrace.testing.fake_clock import FakeClock
from report.recorded import record
from runs.tiny import tiny_classifier


class Machine:
    """A model whose batch costs a fixed part and a part per frame, by a clock set by hand."""

    def __init__(self, fixed_ms: float, frame_ms: float) -> None:
        self.clock = FakeClock()
        self.fixed_ms, self.frame_ms = fixed_ms, frame_ms
        self.batches: list[tuple[int, int]] = []

    def run(self, batch: torch.Tensor) -> None:
        self.batches.append((len(batch), torch.get_num_threads()))
        per_frame = self.frame_ms * (2 if torch.get_num_threads() == 1 else 1)
        self.clock.advance((self.fixed_ms + per_frame * len(batch)) / 1e3)

    def try_all(self, batch_size: int, budget_seconds: float = 100):
        return {
            each.option: each
            for each in alternatives(
                self.run,
                (3, 8, 8),
                batch_size,
                budget_seconds=budget_seconds,
                clock=self.clock,
            )
        }


@pytest.fixture(autouse=True)
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    assert torch.get_num_threads() == 2, "the setting was given back"
    torch.set_num_threads(before)


def test_a_larger_batch_shares_what_a_batch_costs():
    found = Machine(fixed_ms=40, frame_ms=5).try_all(1)
    assert found["--batch-size 8"].ms_per_frame == pytest.approx(10)
    assert found["--batch-size 8"].baseline_ms_per_frame == pytest.approx(45)
    assert found["--batch-size 2"].ms_per_frame == pytest.approx(25)


def test_fewer_threads_are_tried_and_given_back():
    found = Machine(fixed_ms=0, frame_ms=5).try_all(4)
    assert found["--threads 1"].ms_per_frame == pytest.approx(10)


def test_each_is_measured_between_turns_of_the_setting_as_it_was():
    machine = Machine(fixed_ms=1, frame_ms=1)
    machine.try_all(16)
    assert machine.batches[:9] == [(16, 2), (32, 2), *[(16, 2), (32, 2)] * 3, (16, 1)]


def test_what_does_not_fit_into_the_budget_is_not_tried():
    machine = Machine(fixed_ms=0, frame_ms=100)
    assert machine.try_all(16, budget_seconds=1) == {}
    assert machine.batches == [(16, 2)]


def test_batches_do_not_grow_without_end():
    assert set(Machine(1, 1).try_all(64)) == {"--threads 1", "--batch-size 16"}


def test_a_compiled_model_is_not_tried_in_other_batches_that_would_be_compiled_first():
    plain = tiny_classifier()
    compiled = replace(plain, compute=Compute(compile=True))
    session = record().model_copy(update={"alternatives": ()})
    assert with_alternatives(session, plain, FakeClock()).alternatives
    assert not with_alternatives(session, compiled, FakeClock()).alternatives
