"""Levels of preprocessing on each device, with decoding and the model."""

import torch

from bench.records import recorded
from decode.gpus import needs_gpu, needs_no_gpu
from headrace.bench.preprocess import (
    LEVELS,
    MEAN_APART,
    MOST_APART,
    PREPROCESS,
    Agreement,
    PreprocessRecord,
    TimedStep,
    paths,
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
    """Return a record, from (step, device) -> seconds for 100 frames."""
    steps = [TimedStep(way=f"{name}, {place}", name=name, place=place) for name, place in seconds]
    durations = zip(steps, seconds.values(), strict=True)
    difference = Agreement(level="medium", place="1 thread", most=1.5, mean=0.1)
    facts = {"model": "tiny", "size": (90, 160), "threads": 4, "compared": 64}
    return recorded(
        {step.way: [duration, spread * duration] for step, duration in durations},
        PreprocessRecord,
        steps=tuple(steps),
        agreement=(difference,),
        **facts,
    )


@needs_no_gpu
def test_every_level_is_timed_on_the_cpu_with_decoding_and_the_model(measure):
    threads, measured = torch.get_num_threads(), measure(PREPROCESS)
    devices = ["cpu"] if threads == 1 else ["cpu", "1 thread"]
    expected = [("decode", "cpu"), *((name, d) for name in (*LEVELS, "infer") for d in devices)]
    assert [(step.name, step.place) for step in measured.steps] == expected
    assert [turn.way for turn in measured.turns] == [step.way for step in measured.steps]
    assert all(turn.amount >= 1 for turn in measured.turns)
    assert {agreement.most for agreement in measured.agreement} <= {0.0}
    assert measured.size == (96, 128)
    assert torch.get_num_threads() == threads


@needs_gpu
def test_a_gpu_has_equal_tensors_and_is_timed_too(measure):
    measured = measure(PREPROCESS)
    on_gpu = [agreement for agreement in measured.agreement if agreement.place == "gpu"]
    assert [agreement.level for agreement in on_gpu] == list(LEVELS)
    assert max(agreement.most for agreement in on_gpu) <= MOST_APART
    assert max(agreement.mean for agreement in on_gpu) <= MEAN_APART
    assert {step.name for step in measured.steps if step.place == "gpu"} == {
        *(*LEVELS, "transfer", "infer")
    }


def test_findings_on_preprocessing(check_pages):
    cases = {
        "without a GPU": record(ON_CPU),
        "with a GPU": record(ON_CPU | ON_GPU),
        "nothing is quicker": record(ON_CPU | {("infer", "1 thread"): 0.7}),
        "turns differ too much": record(ON_CPU, spread=2.0),
    }
    check_pages(PREPROCESS, cases)
    names = [path.name for path in paths(PREPROCESS.rows(cases["with a GPU"]))]
    assert names == ["cpu, model on gpu", "gpu", "cpu"]


def test_charts_show_every_step_on_every_device_and_a_whole_frame():
    steps, whole = PREPROCESS.page(record(ON_CPU | ON_GPU)).charts
    assert [(bars.name, len(bars.x)) for bars in steps.figure.data] == [
        *(("cpu", 5), ("1 thread", 4), ("gpu", 5))
    ]
    assert [(bars.name, [round(x, 3) for x in bars.x]) for bars in whole.figure.data] == [
        ("decode", [2, 2, 2]),
        ("transform", [2, 0.5, 2]),
        ("transfer", [0.5, 0, 0]),
        ("infer", [0.5, 0.5, 6]),
    ]
