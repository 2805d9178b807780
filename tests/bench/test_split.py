"""A model whole and split: compared first, then timed in turn and pipelined."""

import pytest
import torch
from torch import nn

from bench.records import recorded
from decode.gpus import needs_gpu
from headrace.bench.benchmark import Context
from headrace.bench.model_work import ModelRuns
from headrace.bench.split import SPLIT, SplitParts, SplitRecord, SplitTiming, blocks, spaced
from headrace.errors import BackendError, ConfigError
from headrace.models.load import load_classifier
from headrace.runs.run_options import ComputeOptions
from headrace.runtime.clock import SYSTEM_CLOCK


def record(whole, in_turn, pipelined):
    cut = SplitTiming(
        layer="b", first_ms=3, transfer_ms=1, second_ms=2, crossing_bytes=4000, difference=0
    )
    facts = {"model": "tiny", "device": "cpu", "compared": 64, "allowed": 1e-3, "cuts": (cut,)}
    seconds = {"whole": whole, "b, in turn": in_turn, "b, pipelined": pipelined}
    return recorded(seconds, SplitRecord, **facts)


def test_the_whole_model_and_both_variants_of_each_split_are_timed(measure):
    phases, points = [], "features.3, squeezenet1_1:features.8"
    context = Context(on_progress=lambda *phase: phases.append(phase))
    measured = measure(SPLIT, context, threads=1, split_points=points)
    assert phases[1:3] == [("features.3, compared", 0, 2), ("features.8, compared", 1, 2)]
    assert [turn.way for turn in measured.turns] == [
        "whole",
        *("features.3, in turn", "features.3, pipelined"),
        *("features.8, in turn", "features.8, pipelined"),
    ]
    assert all(turn.amount >= 2 for turn in measured.turns)
    assert [cut.layer for cut in measured.cuts] == ["features.3", "features.8"]
    for cut in measured.cuts:
        assert cut.difference == 0
        assert cut.first_ms > 0
        assert cut.second_ms > 0
        assert cut.crossing_bytes > 0


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ("features.99", "the model has no layer 'features.99'"),
        ("resnet18:layer1", "the split point resnet18:layer1 names resnet18, but the model is"),
        ("features.3,", "the split point '' names no layer; give MODEL:LAYER"),
    ],
)
def test_an_unknown_layer_is_refused(measure, points, message):
    with pytest.raises(ConfigError, match=message):
        measure(SPLIT, threads=1, split_points=points)


def test_parts_with_different_scores_are_not_timed():
    compute = ComputeOptions(model_name="squeezenet1_1", weights="none", batch_size=2)
    runs = ModelRuns(compute=compute, cached=None, seconds=0.01, clock=SYSTEM_CLOCK)
    parts = SplitParts(runs, "features.3", [torch.zeros(2, 3, 64, 64)])
    with pytest.raises(
        BackendError, match=r"scores of .* change when it is split after features\.3"
    ):
        parts.cut(lambda batch: torch.ones(2, 1000))


@pytest.mark.parametrize(
    ("model", "chosen"),
    [
        ("resnet18", ["layer1", "layer2", "layer3"]),
        ("mobilenet_v3_small", ["features.2", "features.5", "features.8"]),
        ("squeezenet1_1", ["features.4", "features.7", "features.10"]),
    ],
)
def test_without_named_layers_blocks_are_split(model, chosen):
    module = load_classifier(model, "none").module
    assert spaced(blocks(module), 3) == chosen


def test_a_model_of_few_layers_is_split_at_every_cut_point():
    assert blocks(nn.Sequential(nn.Conv2d(3, 3, 1), nn.ReLU(), nn.Flatten())) == ["0", "1"]


def test_names_are_evenly_spaced():
    assert spaced("abcdefgh", 3) == ["b", "d", "f"]
    assert spaced("ab", 3) == ["a", "b"]


def test_findings_on_splits(check_pages):
    cases = {
        "it pays": record([1, 1], [1, 1], [0.8, 0.8]),
        "it does not": record([1, 1], [1.2, 1.2], [1.1, 1.1]),
    }
    check_pages(SPLIT, cases)


@needs_gpu
def test_parts_on_two_devices_score_like_the_whole_model_on_one(measure):
    measured = measure(SPLIT, threads=1, split_points="features.5", device="cuda")
    [cut] = measured.cuts
    assert cut.difference <= measured.allowed
    assert cut.transfer_ms > 0
