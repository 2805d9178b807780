"""Preparation of a model: device, precision, compilation and warm-up, with their times."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from decode.gpus import needs_no_gpu
from forked import in_a_fork
from headrace.errors import BackendError
from headrace.models.compute import Compute
from headrace.models.device import autocast_dtype, emulation, is_native
from headrace.models.load import load_classifier, load_detector
from headrace.models.model import FixedBatch, compile_module, prepare
from headrace.runs.model_setup import precision_notes
from headrace.runs.run_options import ComputeOptions, ExecutionOptions
from headrace.testing.fake_clock import FakeClock
from models.tiny import Applied, Failing, Mean, refused, tiny

PLAIN, COMPILED = Compute(), Compute(compile=True)


class Recording(Mean):
    """Records the shape of each batch; takes 0.25 s per batch."""

    def __init__(self, clock: FakeClock | None = None) -> None:
        super().__init__()
        self.clock, self.shapes = clock or FakeClock(), []

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        self.clock.advance(0.25)
        self.shapes.append(tuple(batch.shape))
        return super().forward(batch)


def same(module: nn.Module) -> nn.Module:
    return module


def ready(module, compute=PLAIN, batch_size=2, **options):
    return prepare(lambda: tiny(module), compute, batch_size=batch_size, **options)


def test_each_part_of_the_preparation_is_timed():
    clock = FakeClock()
    module = Recording(clock)

    def load():
        clock.advance(3.0)
        return tiny(module)

    def compiler(module: nn.Module) -> nn.Module:
        clock.advance(20.0)
        return module

    compute = Compute(compile=True)
    parts = []
    times = {"clock": clock, "on_part": lambda *part: parts.append(part)}
    model = prepare(load, compute, batch_size=5, compiler=compiler, **times)
    # The batch that triggers the compilation counts as `compile`, not as `warm-up`.
    assert parts == [("model", 3.0), ("compile", 20.25), ("warm-up", 0.25)]
    assert module.shapes == [(5, 3, 4, 4)] * 2
    assert model.compute == compute


def test_without_compilation_no_compile_part_is_timed():
    clock, parts = FakeClock(), {}
    times = {"clock": clock, "on_part": parts.__setitem__}
    ready(Recording(clock), compiler=lambda module: Failing(), **times)
    assert parts == {"model": 0, "warm-up": 0.25}


@pytest.mark.parametrize(
    ("load", "shape"),
    [
        (lambda: load_classifier("squeezenet1_1", "none"), (2, 3, 224, 224)),
        (lambda: load_detector("ssdlite320_mobilenet_v3_large", "none"), (2, 3, 90, 160)),
    ],
    ids=["input size of the model", "frame size"],
)
def test_warm_up_runs_one_batch_of_the_real_shape_and_changes_no_weight(load, shape):
    loaded, shapes = load(), []
    before = {key: value.clone() for key, value in loaded.module.state_dict().items()}
    loaded.module.register_forward_pre_hook(lambda module, args: shapes.append(args[0].shape))
    model = prepare(lambda: loaded, PLAIN, batch_size=2, frame_size=(90, 160))
    assert shapes == [shape]
    assert all(value.equal(before[key]) for key, value in model.module.state_dict().items())


def raising(error):
    def compiler(module: nn.Module) -> nn.Module:
        raise error

    return {"compute": COMPILED, "compiler": compiler}


BATCHES = "tiny cannot run on cpu with batches of "
COMPILING = "tiny cannot be compiled on cpu for batches of 2: ..."
NO_COMPILER = f"{COMPILING} no ... ; install ... leave out"
HALF = {"compute": Compute(precision="float16")}
NOT_READY = [
    (Failing(), {}, f"{BATCHES}2: out of memory; use a smaller --batch"),
    (Failing(), HALF, "on cpu in float16 with ... , float32 or another --dev"),
    (Mean(), {"batch_size": 10**15}, f"{BATCHES}1000000000000"),
    (Mean(), raising(RuntimeError("no g++\nat all")), NO_COMPILER),
    (Mean(), raising(FileNotFoundError(2, "no cc")), NO_COMPILER),
    (Failing(), {"compute": COMPILED, "compiler": same}, f"{COMPILING} out of"),
]


@pytest.mark.parametrize(("module", "options", "message"), NOT_READY)
def test_a_failed_preparation_is_an_error_with_advice(module, options, message):
    with refused(message, error=BackendError):
        ready(module, **options)


def test_torch_compile_compiles_a_model_without_graph_breaks():
    """In a fork, because the compiler leaves threads."""

    def check():
        torch.set_num_threads(1)
        compiled = prepare(load, COMPILED, batch_size=2, compiler=compile_full_graph)
        batch = torch.ones(2, 3, 224, 224)
        return compiled.run(batch) == load().run(batch)

    def load():
        return load_classifier("squeezenet1_1", "none")

    def compile_full_graph(module):
        return torch.compile(module, backend="eager", fullgraph=True)

    assert in_a_fork(check, hang_seconds=300)


def test_the_default_compiler_is_torch_compile():
    """The module does not run: the compilation would take long."""
    assert isinstance(compile_module(Mean()), torch._dynamo.OptimizedModule)


@needs_no_gpu
def test_a_missing_device_is_refused_before_loading():
    def load():
        raise AssertionError("loaded")

    with pytest.raises(BackendError, match=r"PyTorch sees no CUDA device: .*; or use --device cpu"):
        prepare(load, Compute(device="cuda"), batch_size=1)


def test_a_short_batch_is_padded_and_its_output_is_cut():
    module = Recording()
    model = ready(module, COMPILED, 4, compiler=same)
    batch = torch.rand(3, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    assert model.run(batch) == tiny(Mean()).run(batch)
    assert {shape[0] for shape in module.shapes} == {4}


def test_full_and_larger_batches_keep_their_size():
    fixed = FixedBatch(module := Recording(), 4)
    assert [fixed(torch.ones(n, 3, 2, 2)).shape for n in (4, 6)] == [(4, 3), (6, 3)]
    assert module.shapes == [(4, 3, 2, 2), (6, 3, 2, 2)]


def test_all_batches_are_contiguous():
    strides: list[tuple[int, ...]] = []
    module = Applied(lambda module, batch: strides.append(batch.stride()) or batch)
    frames = torch.zeros(4, 5, 6, 3).permute(0, 3, 1, 2)
    fixed = FixedBatch(module, 4)
    for batch in (frames, frames[:3], frames.contiguous()):
        fixed(batch)
    assert strides == [(90, 30, 6, 1)] * 3


def test_by_default_a_model_runs_on_the_cpu_in_float32():
    assert (PLAIN.device, autocast_dtype(PLAIN), PLAIN.compile) == ("cpu", torch.float32, False)


OLD = {"architecture": "x86_64", "avx2": True, "avx512_f": True, "avx512_bf16": False}
NEW = OLD | {"avx512_bf16": True}
ARM = {"architecture": "arm64", "neon": True, "bf16": True, "fp16_arith": True}
OTHER = {"architecture": "ppc64le"}


NATIVE = [
    ("float32", OLD, True),
    ("bfloat16", OLD, False),
    ("bfloat16", NEW, True),
    ("bfloat16", OLD | {"amx_bf16": True}, True),
    ("bfloat16", ARM, True),
    ("float16", ARM, True),
    ("float16", NEW | {"avx512_fp16": False}, False),
    ("bfloat16", OTHER, None),
]


@pytest.mark.parametrize(("precision", "capabilities", "expected"), NATIVE)
def test_a_precision_is_native_if_one_feature_has_it(precision, capabilities, expected):
    assert is_native(precision, capabilities) is expected


def test_pytorch_reports_the_features_of_this_processor_by_the_expected_names():
    known = torch.cpu.get_capabilities()
    if known["architecture"] in ("x86_64", "arm64", "aarch64"):
        assert is_native("bfloat16") is not None
    assert is_native("bfloat16") is is_native("bfloat16", dict(known))


def test_emulation_on_the_cpu_is_a_warning():
    bfloat16 = Compute(precision="bfloat16")
    on_gpu = replace(bfloat16, device="cuda")
    for compute in (Compute(), Compute(device="cuda", precision="float16"), on_gpu):
        assert [emulation(compute, processor) for processor in (OLD, NEW, OTHER)] == [None] * 3
    for compute in (bfloat16, replace(on_gpu, split_layer="layer1")):
        warning, *others = (emulation(compute, processor) for processor in (OLD, NEW, OTHER))
        assert warning.startswith("this processor has no instructions for bfloat16, so PyTorch emu")
        assert ("\n" in warning, others) == (False, [None, None])


def test_emulation_is_a_note_of_the_run(monkeypatch):
    amp = ComputeOptions(execution=ExecutionOptions(amp=True))
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: OLD)
    assert precision_notes(amp) == (emulation(Compute(precision="bfloat16"), OLD),)
    assert precision_notes(ComputeOptions()) == ()
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: NEW)
    assert precision_notes(amp) == ()
