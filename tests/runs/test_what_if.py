"""Alternative settings, measured in a time budget, and options with advised changes."""

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
    """A run whose steps take a fixed time plus a time per frame, by a fake clock."""

    def __init__(self, fixed_ms: float = 0.0, frame_ms: float = 5.0, batch_size: int = 16) -> None:
        self.clock = FakeClock()
        self.fixed_ms, self.frame_ms, self.batch_size = fixed_ms, frame_ms, batch_size
        self.probes: list[tuple[dict[str, Scalar], int]] = []
        self.interrupted_probe: int | None = None

    def probe(self, changed: Mapping[str, Scalar], steps: int) -> float | None:
        self.probes.append((dict(changed), steps))
        if self.interrupted_probe == len(self.probes):
            return None
        size = int(changed.get("batch_size", self.batch_size) or 1)
        factor = 2 if changed.get("threads") == 1 else 1
        ms_per_frame = self.fixed_ms / size + factor * self.frame_ms
        self.clock.advance(ms_per_frame * size * steps / 1e3)
        return ms_per_frame

    def measure(self, *, frames: int = 10_000, is_fixed: bool = False, **recorded: Any):
        session = what_if.measure_alternatives(
            record(MODEL, **recorded),
            self.probe,
            **{"frames": frames, "is_fixed": is_fixed, "clock": self.clock},
        )
        return {alternative.option: alternative for alternative in session.alternatives}


@pytest.fixture
def no_trials():
    """Alternatives are measured here, unlike in other tests of this folder."""


def settings_of(durations: Any, **configuration: Any) -> list[dict[str, Scalar]]:
    return [*what_if.settings(record(durations, configuration=configuration))]


def test_settings_may_remove_the_bottleneck() -> None:
    assert settings_of(MODEL, threads=2) == [{"batch_size": 32}, {"threads": 1}]
    assert settings_of(PREPROCESS, prep_level="complex") == [{"prep_level": "medium"}]
    assert settings_of(PREPROCESS, prep_level="simple") == []
    assert settings_of(SINK) == [{"video": False}]


def test_a_setting_is_compared_with_baseline_probes_before_and_after_it() -> None:
    machine = Machine(fixed_ms=40, frame_ms=5)
    alternative = machine.measure(configuration={"threads": 2})["--batch-size 32"]
    assert alternative.ms_per_frame == pytest.approx(6.25)
    assert alternative.baseline_ms_per_frame == pytest.approx(7.5)
    assert alternative.options == {"batch_size": 32}
    changes = [changed for changed, _ in machine.probes]
    assert changes == [{}, {"batch_size": 32}, {}, {"threads": 1}, {}]
    assert min(steps for _, steps in machine.probes) >= 4


def test_settings_that_do_not_fit_the_budget_are_not_measured() -> None:
    machine = Machine(frame_ms=100)
    assert machine.measure() == {}
    assert machine.probes == [({}, machine.probes[0][1])]


def test_an_interrupted_probe_keeps_earlier_results() -> None:
    machine = Machine()
    machine.interrupted_probe = 4
    assert list(machine.measure(configuration={"threads": 2})) == ["--batch-size 32"]


def test_nothing_is_measured_for_short_incomplete_gpu_or_fixed_runs():
    machine = Machine()
    assert machine.measure(frames=3 * 16) == {}
    assert machine.probes == []
    assert Machine().measure(outcome="interrupted") == {}
    assert Machine().measure(configuration={"device": "cuda"}) == {}
    assert Machine().measure(is_fixed=True) == {}, "a compiled model would be compiled first"


def options(**compute: Any) -> RunOptions:
    return RunOptions(
        input=InputOptions(sources=("a.mp4",), stride=2),
        compute=ComputeOptions(**compute),
        output=OutputOptions(out=Path("run")),
    )


def advised(session: Session, **compute: Any) -> RunOptions | None:
    advice = what_if.first_advised_change(options(**compute), session)
    return None if advice is None else advice[1]


def with_alternative(name: str, value: int) -> Session:
    alternative = Alternative(
        option=f"--{name}", options={name: value}, ms_per_frame=7.0, baseline_ms_per_frame=14.0
    )
    return record(alternatives=(alternative,))


def test_advised_options_differ_only_in_the_change_and_the_folder() -> None:
    assert advised(record(SINK), batch_size=4) == RunOptions(
        input=InputOptions(sources=("a.mp4",), stride=2),
        compute=ComputeOptions(batch_size=4),
        output=OutputOptions(out=Path("run/tried"), video=False),
        tried="--no-video, if the predictions are what you need",
    )


COMPLEX = record(PREPROCESS, configuration={"prep_level": "complex"})
SMALLER = record(configuration={"smaller_model": "resnet18"})


def test_advice_changes_its_option() -> None:
    assert advised(with_alternative("batch_size", 8)).compute.batch_size == 8
    assert advised(with_alternative("threads", 1)).compute.threads == 1
    assert advised(COMPLEX).compute.prep_level == "medium"
    assert advised(SMALLER).compute.model_name == "resnet18"


def test_advice_without_an_option_or_with_a_checkpoint_is_skipped() -> None:
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
def test_the_measured_gain_is_compared_with_the_predicted_one(after, measured):
    before = record(SINK)
    change, _ = what_if.first_advised_change(options(), before)
    text = what_if.describe_gain(change, before, after)
    need = "--no-video, if the predictions are what you need: "
    assert re.fullmatch(rf"{need}{measured}; 3\.2 times were predicted\.", text)


def test_each_measurement_names_its_setting(tiny) -> None:
    named: list[str] = []
    runner = tiny(on_probe=named.append)
    for changed in ({}, {"video": False}, {"batch_size": 4}):
        runner._probe(changed, 1)
    assert named == ["the same settings again", "--no-video", "--batch-size 4"]
