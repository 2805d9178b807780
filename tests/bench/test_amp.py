"""Precisions of one model: what they change in its results, and which is the fastest."""

import pytest
import torch

from bench.contests import recorded
from decode.gpus import needs_gpu
from headrace.bench.amp import AMP, AmpRecord, Precise
from headrace.models.native import is_native


def page(bfloat16, *, native=True, is_random=False, device="cpu"):
    precisions = (
        Precise(way="float32", same_class=1, most_changed=0, is_native=True),
        Precise(way="bfloat16", same_class=0.75, most_changed=0.125, is_native=native),
    )
    seconds = {"float32": [1.0, 1.0], "bfloat16": bfloat16}
    fields = {"model": "tiny", "device": device, "is_random": is_random, "frames": 8}
    return AMP.page(recorded(seconds, AmpRecord, precisions=precisions, **fields))


def test_both_precisions_of_a_processor_are_timed_and_compared(measure):
    found = measure(AMP, threads=1)
    assert [turn.way for turn in found.turns] == ["float32", "bfloat16"]
    assert all(turn.amount >= 2 for turn in found.turns)
    full, half = found.precisions
    assert (full.same_class, full.most_changed) == (1, 0)
    assert 0 <= half.same_class <= 1
    assert 0 < half.most_changed < 0.1
    assert half.is_native is is_native("bfloat16")
    assert (found.frames, found.model, found.is_random) == (6, "squeezenet1_1", True)
    assert not torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize(
    ("record", "headline", "options", "gain", "said"),
    [
        (
            {"bfloat16": [0.5, 0.5]},
            "Fastest is bfloat16: 200 frames/s",
            {"amp": True},
            2,
            "In bfloat16 75 % of 8 frames have the same likeliest class as in float32; confidence "
            "in it changes by up to 0.1.",
        ),
        (
            {"bfloat16": [2, 2], "native": False},
            "Fastest is float32: 100 frames/s",
            {},
            1,
            "This processor has no instructions for bfloat16: PyTorch emulates it, which is slower "
            "where they would be faster.",
        ),
        (
            {"bfloat16": [0.5, 0.5], "device": "cuda"},
            "Fastest is bfloat16: 200 frames/s",
            {},
            2,
            "",
        ),
    ],
    ids=["faster", "emulated", "on a GPU"],
)
def test_the_answer_follows_from_the_figures(record, headline, options, gain, said):
    shown = page(**record)
    [finding] = shown.findings
    assert (finding.headline, finding.advice.options, finding.advice.gain) == (
        headline,
        options,
        gain,
    )
    assert said in ["", *finding.evidence]
    assert shown.table.rows[1][-1] == ("emulated" if record.get("native") is False else "yes")
    is_taken = record.get("device") != "cuda"
    assert ("takes float16 with --use-amp" in finding.advice.words) is not is_taken


def test_random_weights_are_said_to_tell_little_of_results():
    [finding] = page([1, 1], is_random=True).findings
    assert "With random weights" in finding.evidence[0]


@needs_gpu
def test_a_gpu_is_asked_for_both_of_its_short_precisions(measure):
    found = measure(AMP, device="cuda")
    assert [each.way for each in found.precisions][:2] == ["float32", "float16"]
    assert {each.is_native for each in found.precisions} == {None}
