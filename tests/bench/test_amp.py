"""Precisions of one model: changed results, and the fastest one."""

import torch

from bench.records import recorded
from decode.gpus import needs_gpu
from headrace.bench.amp import AMP, AmpRecord, PrecisionAccuracy
from headrace.bench.benchmark import Context
from headrace.models.device import is_native


def record(bfloat16, *, native=True, is_random=False, device="cpu"):
    precisions = (
        PrecisionAccuracy(way="float32", same_class=1, most_changed=0, is_native=True),
        PrecisionAccuracy(way="bfloat16", same_class=0.75, most_changed=0.125, is_native=native),
    )
    seconds = {"float32": [1.0, 1.0], "bfloat16": bfloat16}
    fields = {"model": "tiny", "device": device, "is_random": is_random, "frames": 8}
    return recorded(seconds, AmpRecord, precisions=precisions, **fields)


def test_both_precisions_of_a_cpu_are_timed_and_compared(measure):
    phases = []
    context = Context(on_progress=lambda *phase: phases.append(phase))
    measured = measure(AMP, context, threads=1)
    loading = ("decoding frames and loading the model", 0, 0)
    assert phases[:3] == [loading, ("float32, compared", 0, 2), ("bfloat16, compared", 1, 2)]
    assert [turn.way for turn in measured.turns] == ["float32", "bfloat16"]
    assert all(turn.amount >= 2 for turn in measured.turns)
    full, half = measured.precisions
    assert (full.same_class, full.most_changed) == (1, 0)
    assert 0 <= half.same_class <= 1
    assert 0 < half.most_changed < 0.1
    assert half.is_native is is_native("bfloat16")
    assert (measured.frames, measured.model, measured.is_random) == (6, "squeezenet1_1", True)
    assert not torch.is_autocast_enabled("cpu")


def test_findings_on_precisions(check_pages):
    cases = {
        "faster": record([0.5, 0.5]),
        "emulated": record([2, 2], native=False),
        "on a GPU": record([0.5, 0.5], device="cuda"),
        "random weights": record([1, 1], is_random=True),
    }
    check_pages(AMP, cases)
    assert AMP.page(cases["emulated"]).table.rows[1][-1] == "emulated"


@needs_gpu
def test_both_16_bit_precisions_of_a_gpu_are_timed(measure):
    measured = measure(AMP, device="cuda")
    assert [accuracy.way for accuracy in measured.precisions][:2] == ["float32", "float16"]
    assert {accuracy.is_native for accuracy in measured.precisions} == {None}
