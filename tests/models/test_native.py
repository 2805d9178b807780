"""Precisions that a processor has, and those that PyTorch emulates on it."""

import pytest
import torch

from headrace.models.compute import Compute
from headrace.models.native import emulation, is_native
from headrace.runs.options import ComputeOptions, ExecutionOptions
from headrace.runs.ready import notes_on

OLD = {"architecture": "x86_64", "avx2": True, "avx512_f": True, "avx512_bf16": False}
NEW = OLD | {"avx512_bf16": True}
ARM = {"architecture": "arm64", "neon": True, "bf16": True, "fp16_arith": True}
OTHER = {"architecture": "ppc64le"}


@pytest.mark.parametrize(
    ("precision", "capabilities", "known"),
    [
        ("float32", OLD, True),
        ("bfloat16", OLD, False),
        ("bfloat16", NEW, True),
        ("bfloat16", OLD | {"amx_bf16": True}, True),
        ("bfloat16", ARM, True),
        ("float16", ARM, True),
        ("float16", NEW | {"avx512_fp16": False}, False),
        ("bfloat16", OTHER, None),
    ],
)
def test_a_precision_is_native_where_one_instruction_has_it(precision, capabilities, known):
    assert is_native(precision, capabilities) is known


def test_pytorch_tells_of_this_processor_by_the_names_that_are_asked():
    known = torch.cpu.get_capabilities()
    if known["architecture"] in ("x86_64", "arm64", "aarch64"):
        assert is_native("bfloat16") is not None
    assert is_native("bfloat16") is is_native("bfloat16", dict(known))


@pytest.mark.parametrize(
    "compute",
    [
        Compute(),
        Compute(device="cuda", precision="float16"),
        Compute(device="cuda", precision="bfloat16"),
    ],
)
def test_nothing_is_emulated_in_full_precision_or_on_a_gpu(compute):
    assert emulation(compute, OLD) is None


@pytest.mark.parametrize(
    "compute",
    [
        Compute(precision="bfloat16"),
        Compute(device="cuda", precision="bfloat16", split_layer="layer1"),
    ],
)
def test_emulation_is_said_where_a_part_of_the_model_runs_on_such_a_processor(compute):
    said = emulation(compute, OLD)
    assert said is not None
    assert said.startswith("this processor has no instructions for bfloat16, so PyTorch emulates")
    assert "\n" not in said
    assert emulation(compute, NEW) is None
    assert emulation(compute, OTHER) is None


def test_a_run_notes_it_when_it_is_asked_for(monkeypatch):
    amp = ComputeOptions(execution=ExecutionOptions(amp=True))
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: OLD)
    assert notes_on(amp) == (emulation(Compute(precision="bfloat16"), OLD),)
    assert notes_on(ComputeOptions()) == ()
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: NEW)
    assert notes_on(amp) == ()
