"""Levels of preprocessing in each place, beside decoding and the model."""

import pytest
import torch

from bench.contests import recorded
from decode.gpus import needs_gpu, needs_no_gpu
from headrace.bench.preprocess import PREPROCESS, paths
from headrace.bench.preprocess_record import (
    LEVELS,
    MEAN_APART,
    MOST_APART,
    Agreement,
    PreprocessRecord,
    Step,
)

ON_CPU = {
    ("decode", "cpu"): 0.2,
    ("simple", "cpu"): 0.1,
    ("simple", "1 thread"): 0.2,
    ("medium", "cpu"): 0.2,
    ("medium", "1 thread"): 0.2,
    ("complex", "cpu"): 2.0,
    ("complex", "1 thread"): 3.0,
    ("infer", "cpu"): 0.6,
    ("infer", "1 thread"): 0.1,
}
ON_GPU = {
    ("simple", "gpu"): 0.05,
    ("medium", "gpu"): 0.05,
    ("complex", "gpu"): 0.1,
    ("transfer", "gpu"): 0.05,
    ("infer", "gpu"): 0.05,
}


def record(seconds, spread=1.0):
    """Return a record of steps that took so many seconds for 100 frames."""
    steps = [Step(way=f"{name}, {place}", name=name, place=place) for name, place in seconds]
    return recorded(
        {
            step.way: [seconds[step.name, step.place], spread * seconds[step.name, step.place]]
            for step in steps
        },
        PreprocessRecord,
        model="tiny",
        size=(90, 160),
        threads=4,
        steps=tuple(steps),
        compared=64,
        agreement=(Agreement(level="medium", place="1 thread", most=1.5, mean=0.1),),
    )


@needs_no_gpu
def test_every_level_is_timed_on_the_processor_beside_decoding_and_the_model(measure):
    threads, measured = torch.get_num_threads(), measure(PREPROCESS)
    places = ["cpu"] if threads == 1 else ["cpu", "1 thread"]
    wanted = [("decode", "cpu"), *((name, p) for name in (*LEVELS, "infer") for p in places)]
    assert [(step.name, step.place) for step in measured.steps] == wanted
    assert [turn.way for turn in measured.turns] == [step.way for step in measured.steps]
    assert all(turn.amount >= 1 for turn in measured.turns)
    assert {each.most for each in measured.agreement} <= {0.0}
    assert measured.size == (96, 128)
    assert torch.get_num_threads() == threads


@needs_gpu
def test_a_gpu_gives_the_same_tensors_and_is_timed_too(measure):
    measured = measure(PREPROCESS)
    found = [each for each in measured.agreement if each.place == "gpu"]
    assert [each.level for each in found] == list(LEVELS)
    assert all(each.most <= MOST_APART and each.mean <= MEAN_APART for each in found)
    assert {step.name for step in measured.steps if step.place == "gpu"} == {
        *(*LEVELS, "transfer", "infer")
    }


def test_without_a_gpu_its_half_is_said_to_be_missing():
    [finding] = PREPROCESS.page(record(ON_CPU)).findings
    assert finding.headline == (
        "Preprocessing (medium) takes 2.00 ms a frame on the CPU, 20 % of decode, transform and "
        "infer"
    )
    assert finding.evidence[0] == (
        "A frame on cpu: decode 2.00, transform 2.00, infer 6.00; together 10.0 ms."
    )
    assert any("PyTorch sees no GPU here" in line for line in finding.evidence)
    assert any("apart by 1.50 grey levels at most" in line for line in finding.evidence)
    assert finding.change == (
        "--threads 1 of headrace run: a frame takes 5.00 ms instead of 10.0, 2.00 times as fast."
    )
    assert finding.advice.options == {"threads": 1}
    assert finding.advice.gain == pytest.approx(2)


def test_with_a_gpu_both_places_are_compared_with_the_model_on_it():
    found = record(ON_CPU | ON_GPU)
    assert [path.name for path in paths(PREPROCESS.rows(found))] == [
        "cpu, model on gpu",
        "gpu",
        "cpu",
    ]
    [finding] = PREPROCESS.page(found).findings
    assert finding.headline == (
        "Preprocessing (medium) takes 0.500 ms a frame on the GPU, 2.00 ms a frame on the CPU"
    )
    assert finding.change == (
        "--infer-on-gpu --prep-on-gpu of headrace run: a frame takes 3.00 ms instead of 5.00, "
        "1.67 times as fast."
    )
    assert finding.advice.options == {"device": "cuda", "prep_on_gpu": True}
    assert not any("no GPU" in line for line in finding.evidence)


def test_where_nothing_is_quicker_nothing_is_to_be_changed():
    slow = ON_CPU | {("infer", "1 thread"): 0.7}
    [finding] = PREPROCESS.page(record(slow)).findings
    assert finding.change == "No gain is known: nothing here is clearly quicker than cpu."
    assert finding.advice.gain == 1


def test_turns_that_differ_too_much_give_no_verdict():
    [finding] = PREPROCESS.page(record(ON_CPU, spread=2.0)).findings
    assert finding.headline.startswith(
        "Too unsteady to say what preprocessing takes; by the medians (medium) 2.67 ms a frame"
    )
    assert finding.advice.gain is None


def test_charts_show_every_step_in_every_place_and_the_whole_of_a_frame():
    steps, whole = PREPROCESS.page(record(ON_CPU | ON_GPU)).charts
    assert [(bars.name, len(bars.x)) for bars in steps.figure.data] == [
        *(("cpu", 5), ("1 thread", 4), ("gpu", 5)),
    ]
    assert [(bars.name, [round(x, 3) for x in bars.x]) for bars in whole.figure.data] == [
        ("decode", [2, 2, 2]),
        ("transform", [2, 0.5, 2]),
        ("transfer", [0.5, 0, 0]),
        ("infer", [0.5, 0.5, 6]),
    ]
