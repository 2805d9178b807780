"""Other settings are tried in turns inside a budget, and a run's advice is tried as options."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from headrace.profiling.provenance import Scalar
from headrace.profiling.run_records import Alternative
from headrace.profiling.session import Session
from headrace.runs import what_if
from headrace.runs.run_options import ComputeOptions, InputOptions, OutputOptions, RunOptions
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

    def try_all(self, *, frames: int = 10_000, is_fixed: bool = False, **recorded: Any):
        found = what_if.measure_alternatives(
            record(MODEL, **recorded),
            self.rehearse,
            **{"frames": frames, "is_fixed": is_fixed, "clock": self.clock},
        )
        return {each.option: each for each in found.alternatives}


@pytest.fixture
def no_trials():
    """What is tried is asked for here, unlike in other tests of this folder."""


def tried(durations: Any, **configuration: Any) -> list[str]:
    return [
        each.option for each in what_if.settings(record(durations, configuration=configuration))
    ]


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
    changes = [changed for changed, _ in machine.taken]
    assert changes == [{}, {"batch_size": 32}, {}, {"threads": 1}, {}]
    assert min(steps for _, steps in machine.taken) >= 4


def test_what_does_not_fit_into_the_budget_is_not_tried() -> None:
    machine = Machine(frame_ms=100)
    assert machine.try_all() == {}
    assert machine.taken == [({}, machine.taken[0][1])]


def test_a_rehearsal_that_is_interrupted_leaves_what_was_found_before() -> None:
    machine = Machine()
    machine.is_stopped_at = 4
    assert list(machine.try_all(configuration={"threads": 2})) == ["--batch-size 32"]


def test_nothing_is_tried_of_few_frames_fixed_batches_a_gpu_or_a_run_that_did_not_end_well():
    few = Machine()
    assert few.try_all(frames=3 * 16) == {}
    assert few.taken == []
    assert Machine().try_all(outcome="interrupted") == {}
    assert Machine().try_all(configuration={"device": "cuda"}) == {}
    assert Machine().try_all(is_fixed=True) == {}, "a compiled model would be compiled first"


def options(**compute: Any) -> RunOptions:
    return RunOptions(
        input=InputOptions(sources=("a.mp4",), stride=2),
        compute=ComputeOptions(**compute),
        output=OutputOptions(out=Path("run")),
    )


def advised(session: Session, **compute: Any) -> what_if.AdvisedChange | None:
    return what_if.first_advised_change(options(**compute), session)


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


COMPLEX = record(PREPROCESS, configuration={"prep_level": "complex"})
SMALLER = record(configuration={"smaller_model": "resnet18"})


def test_advice_is_made_into_its_option() -> None:
    assert advised(with_alternative("batch_size", 8)).options.compute.batch_size == 8
    assert advised(with_alternative("threads", 1)).options.compute.threads == 1
    assert advised(COMPLEX).options.compute.prep_level == "medium"
    assert advised(SMALLER).options.compute.model_name == "resnet18"


def test_what_no_option_makes_or_what_has_a_checkpoint_of_its_own_is_not_tried() -> None:
    assert advised(record((230.0, 24.0, 70.0, 31.0))) is None
    assert advised(record(steps=5)) is None
    assert advised(SMALLER, weights="mine.pt") is None


FASTER = (30.0, 24.0, 70.0, 1.0)


UNSURE = "uncertain, since other programs used the processor; measured: "


@pytest.mark.parametrize(
    ("after", "measured"),
    [
        (record(FASTER), r"3\.[1-4]\d times as fast"),  # 230 / 70
        (record(FASTER, others_cpu_share=0.6), rf"{UNSURE}3\.[1-4]\d times as fast"),
        (record(SINK, outcome="interrupted"), "the runs are too short to compare"),
    ],
    ids=["quiet", "busy", "interrupted"],
)
def test_what_it_brought_stands_beside_what_was_predicted(after, measured):
    before = record(SINK)
    told = what_if.describe_gain(advised(before).change, before, after)
    need = "--no-video, if the predictions are what you need: "
    assert re.fullmatch(rf"{need}{measured}; 3\.2 times were predicted\.", told)
