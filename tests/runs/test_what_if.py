"""Other settings are tried in turns inside a budget, and a run's advice is tried as options."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from headrace.profiling.provenance import Scalar
from headrace.profiling.run_records import Alternative
from headrace.profiling.session import Session
from headrace.runs.run_options import ComputeOptions, InputOptions, OutputOptions, RunOptions
from headrace.runs.what_if import (
    AdvisedChange,
    describe_gain,
    first_advised_change,
    measure_alternatives,
    settings,
)
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
        found = measure_alternatives(
            session, self.rehearse, frames=frames, is_fixed=False, clock=self.clock
        )
        return {each.option: each for each in found.alternatives}


def tried(durations: Any, **configuration: Any) -> list[str]:
    return [each.option for each in settings(record(durations, configuration=configuration))]


def test_what_is_tried_may_cure_what_bound_the_run() -> None:
    assert tried(MODEL, threads=2) == ["--batch-size 32", "--threads 1"]
    assert tried(PREPROCESS, prep_level="complex") == ["--prep-level medium"]
    assert tried(PREPROCESS, prep_level="simple") == []
    assert tried(SINK) == ["--no-video"]


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
    found = measure_alternatives(
        session, machine.rehearse, frames=10_000, is_fixed=True, clock=machine.clock
    )
    assert found.alternatives == ()


def options(**compute: Any) -> RunOptions:
    return RunOptions(
        input=InputOptions(sources=("a.mp4",), stride=2),
        compute=ComputeOptions(**compute),
        output=OutputOptions(out=Path("run")),
    )


def advised(session: Session, **compute: Any) -> AdvisedChange:
    found = first_advised_change(options(**compute), session)
    assert found is not None
    return found


def with_alternative(name: str, value: int) -> Session:
    other = Alternative(
        option=f"--{name}", options={name: value}, ms_per_frame=7.0, baseline_ms_per_frame=14.0
    )
    return record(alternatives=(other,))


def test_what_is_written_to_a_folder_of_its_own_is_all_that_else_differs() -> None:
    assert advised(record(SINK), batch_size=4).options == RunOptions(
        input=InputOptions(sources=("a.mp4",), stride=2),
        compute=ComputeOptions(batch_size=4),
        output=OutputOptions(out=Path("run/tried"), video=False),
    )


@pytest.mark.parametrize(("name", "value"), [("batch_size", 8), ("threads", 1)])
def test_a_measured_alternative_is_made_into_its_option(name, value) -> None:
    trial = advised(with_alternative(name, value))
    assert getattr(trial.options.compute, name) == value


def test_a_lighter_level_is_tried_where_preprocessing_bounds() -> None:
    trial = advised(record(PREPROCESS, configuration={"prep_level": "complex"}))
    assert trial.options.compute.prep_level == "medium"


def test_another_model_is_not_tried_with_the_checkpoint_of_this_one() -> None:
    session = record(configuration={"smaller_model": "resnet18"})
    assert advised(session).options.compute.model_name == "resnet18"
    assert first_advised_change(options(weights="mine.pt"), session) is None


def test_what_no_option_makes_is_not_tried() -> None:
    assert first_advised_change(options(), record((230.0, 24.0, 70.0, 31.0))) is None
    assert first_advised_change(options(), record(steps=5)) is None


def test_what_it_brought_stands_beside_what_was_predicted() -> None:
    before, after = record(SINK), record((30.0, 24.0, 70.0, 1.0))
    found = re.fullmatch(
        r"--no-video, if the predictions are what you need: (\d\.\d\d) times as fast; "
        r"3\.2 times were predicted\.",
        describe_gain(advised(before).change, before, after),
    )
    assert found is not None
    assert float(found[1]) == pytest.approx(230 / 70, rel=0.05)


def test_what_it_brought_on_a_busy_machine_cannot_be_told() -> None:
    before, after = record(SINK), record((30.0, 24.0, 70.0, 1.0), others_cpu_share=0.6)
    told = describe_gain(advised(before).change, before, after)
    assert "uncertain, since other programs used the processor; measured: 3." in told


def test_a_run_that_did_not_come_to_its_end_tells_no_gain() -> None:
    before, after = record(SINK), record(SINK, outcome="interrupted")
    told = describe_gain(advised(before).change, before, after)
    assert "the runs are too short to compare" in told
