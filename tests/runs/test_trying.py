"""A run's advice is made into options, and what it brought stands beside what was predicted."""

from pathlib import Path
from typing import Any

import pytest

from headrace.profiling.session import Session
from headrace.profiling.setup import Alternative
from headrace.runs.options import ComputeOptions, InputOptions, OutputOptions, RunOptions
from headrace.runs.trying import in_words, measured_gain, trial_of
from report.recorded import record

SINK = (30.0, 24.0, 70.0, 230.0)
PREPROCESS = (70.0, 230.0, 90.0, 31.0)


def options(**compute: Any) -> RunOptions:
    return RunOptions(
        input=InputOptions(sources=("a.mp4",), stride=2),
        compute=ComputeOptions(**compute),
        output=OutputOptions(out=Path("run")),
    )


def with_alternative(name: str, value: int) -> Session:
    other = Alternative(
        option=f"--{name}", options={name: value}, ms_per_frame=7.0, baseline_ms_per_frame=14.0
    )
    return record(alternatives=(other,))


def test_what_is_written_to_a_folder_of_its_own_is_all_that_else_differs() -> None:
    trial = trial_of(options(batch_size=4), record(SINK))
    assert trial is not None
    assert trial.options == RunOptions(
        input=InputOptions(sources=("a.mp4",), stride=2),
        compute=ComputeOptions(batch_size=4),
        output=OutputOptions(out=Path("run/tried"), video=False),
    )


@pytest.mark.parametrize(("name", "value"), [("batch_size", 8), ("threads", 1)])
def test_a_measured_alternative_is_made_into_its_option(name, value) -> None:
    trial = trial_of(options(), with_alternative(name, value))
    assert trial is not None
    assert getattr(trial.options.compute, name) == value


def test_a_lighter_level_is_tried_where_preprocessing_bounds() -> None:
    trial = trial_of(options(), record(PREPROCESS, configuration={"prep_level": "complex"}))
    assert trial is not None
    assert trial.options.compute.prep_level == "medium"


def test_another_model_is_not_tried_with_the_checkpoint_of_this_one() -> None:
    session = record(configuration={"smaller_model": "resnet18"})
    trial = trial_of(options(), session)
    assert trial is not None
    assert trial.options.compute.model_name == "resnet18"
    assert trial_of(options(weights="mine.pt"), session) is None


def test_what_no_option_makes_is_not_tried() -> None:
    assert trial_of(options(), record((230.0, 24.0, 70.0, 31.0))) is None
    assert trial_of(options(), record(steps=5)) is None


def test_what_it_brought_stands_beside_what_was_predicted() -> None:
    before, after = record(SINK), record((30.0, 24.0, 70.0, 1.0))
    trial = trial_of(options(), before)
    assert trial is not None
    gain = measured_gain(before, after)
    assert gain == pytest.approx(230 / 70, rel=0.05)
    assert in_words(trial, before, after) == (
        f"--no-video, if the predictions are what you need: {gain:.2f} times as fast; "
        "3.2 times were predicted."
    )


def test_what_it_brought_on_a_busy_machine_cannot_be_told() -> None:
    before, after = record(SINK), record((30.0, 24.0, 70.0, 1.0), others_cpu_share=0.6)
    trial = trial_of(options(), before)
    assert trial is not None
    assert "cannot be told, for other programs took the processor; as measured, 3." in in_words(
        trial, before, after
    )


def test_a_run_that_did_not_come_to_its_end_tells_no_gain() -> None:
    before = record(SINK)
    trial = trial_of(options(), before)
    assert trial is not None
    after = record(SINK, outcome="interrupted")
    gain = measured_gain(before, after)
    assert gain is None
    assert "too short to tell what it brought" in in_words(trial, before, after)
