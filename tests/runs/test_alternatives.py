"""Other settings are tried in turns with the one in force, inside a budget."""

from collections.abc import Mapping
from typing import Any

import pytest

from headrace.profiling.provenance import Scalar
from headrace.runs.alternatives import settings, with_alternatives
from headrace.testing.fake_clock import FakeClock
from report.recorded import record

MODEL = (30.0, 24.0, 230.0, 31.0)
PREPROCESS = (70.0, 230.0, 90.0, 31.0)
SINK = (30.0, 24.0, 70.0, 230.0)


class Machine:
    """A run whose steps cost a fixed part and a part per frame, by a clock set by hand."""

    def __init__(self, fixed_ms: float = 0.0, frame_ms: float = 5.0, batch_size: int = 16) -> None:
        self.clock = FakeClock()
        self.fixed_ms, self.frame_ms, self.batch_size = fixed_ms, frame_ms, batch_size
        self.taken: list[tuple[dict[str, Scalar], int]] = []
        self.is_stopped_at: int | None = None

    def rehearse(self, changed: Mapping[str, Scalar], steps: int) -> float | None:
        self.taken.append((dict(changed), steps))
        if self.is_stopped_at == len(self.taken):
            return None
        size = int(changed.get("batch_size", self.batch_size) or 1)
        factor = 2 if changed.get("threads") == 1 else 1
        ms_per_frame = self.fixed_ms / size + factor * self.frame_ms
        self.clock.advance(ms_per_frame * size * steps / 1e3)
        return ms_per_frame

    def try_all(self, durations: Any = MODEL, *, frames: int = 10_000, **recorded: Any):
        session = record(durations, **recorded)
        found = with_alternatives(
            session, self.rehearse, frames=frames, is_fixed=False, clock=self.clock
        )
        return {each.option: each for each in found.alternatives}


def options(durations: Any, **configuration: Any) -> list[str]:
    return [each.option for each in settings(record(durations, configuration=configuration))]


def test_what_is_tried_may_cure_what_bound_the_run() -> None:
    assert options(MODEL, threads=2) == ["--batch-size 32", "--threads 1"]
    assert options(PREPROCESS, prep_level="complex") == ["--prep-level medium"]
    assert options(PREPROCESS, prep_level="simple") == []
    assert options(SINK) == ["--no-video"]


def test_a_setting_is_held_against_the_one_in_force_before_and_after_it() -> None:
    machine = Machine(fixed_ms=40, frame_ms=5)
    found = machine.try_all(configuration={"threads": 2})["--batch-size 32"]
    assert found.ms_per_frame == pytest.approx(6.25)
    assert found.baseline_ms_per_frame == pytest.approx(7.5)
    assert found.options == {"batch_size": 32}
    assert [changed for changed, _ in machine.taken] == [
        {},
        {"batch_size": 32},
        {},
        {"threads": 1},
        {},
    ]
    assert min(steps for _, steps in machine.taken) >= 4


def test_what_does_not_fit_into_the_budget_is_not_tried() -> None:
    machine = Machine(frame_ms=100)
    assert machine.try_all() == {}
    assert machine.taken == [({}, machine.taken[0][1])]


def test_videos_of_a_few_frames_are_not_tried() -> None:
    machine = Machine()
    assert machine.try_all(frames=3 * 16) == {}
    assert machine.taken == []


def test_a_rehearsal_that_is_interrupted_leaves_what_was_found_before() -> None:
    machine = Machine()
    machine.is_stopped_at = 4
    assert list(machine.try_all(configuration={"threads": 2})) == ["--batch-size 32"]


def test_nothing_is_tried_of_a_run_that_did_not_end_well_or_had_a_gpu() -> None:
    assert Machine().try_all(outcome="interrupted") == {}
    assert Machine().try_all(configuration={"device": "cuda"}) == {}


def test_a_compiled_model_is_not_tried_in_other_batches_that_would_be_compiled_first() -> None:
    machine = Machine()
    session = record(MODEL)
    found = with_alternatives(
        session, machine.rehearse, frames=10_000, is_fixed=True, clock=machine.clock
    )
    assert found.alternatives == ()
