"""Making a model ready: where and how it computes, compiled, warm, each part timed."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from decode.gpus import needs_no_gpu
from forked import in_a_fork
from headrace.errors import BackendError
from headrace.models.compute import Compute
from headrace.models.load import load_classifier, load_detector
from headrace.models.precision_support import autocast_dtype, emulation, is_native
from headrace.models.prepare import FixedBatch, compile_module, prepare
from headrace.runs.model_setup import precision_notes
from headrace.runs.run_options import ComputeOptions, ExecutionOptions
from headrace.testing.fake_clock import FakeClock
from models.tiny import Applied, Failing, Mean, refused, tiny

PLAIN, COMPILED = Compute(), Compute(compile=True)


class Recording(Mean):
    """Keeps the shape of each batch, and takes a quarter of a second for it."""

    def __init__(self, clock: FakeClock | None = None) -> None:
        super().__init__()
        self.clock, self.shapes = clock or FakeClock(), []

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        self.clock.advance(0.25)
        self.shapes.append(tuple(batch.shape))
        return super().forward(batch)


def same(module: nn.Module) -> nn.Module:
    return module


def ready(module, compute=PLAIN, batch_size=2, **given):
    return prepare(lambda: tiny(module), compute, batch_size=batch_size, **given)


def test_each_part_of_the_start_is_timed_apart():
    clock = FakeClock()
    module = Recording(clock)

    def load():
        clock.advance(3.0)
        return tiny(module)

    def compiler(given: nn.Module) -> nn.Module:
        clock.advance(20.0)
        return given

    compute = Compute(compile=True)
    parts = []
    times = {"clock": clock, "on_part": lambda *part: parts.append(part)}
    model = prepare(load, compute, batch_size=5, compiler=compiler, **times)
    # The batch that makes a compiler work is no warm-up.
    assert parts == [("model", 3.0), ("compile", 20.25), ("warm-up", 0.25)]
    assert module.shapes == [(5, 3, 4, 4)] * 2
    assert model.compute == compute


def test_without_compilation_none_is_done_and_it_took_no_time():
    clock, parts = FakeClock(), {}
    times = {"clock": clock, "on_part": parts.__setitem__}
    ready(Recording(clock), compiler=lambda given: Failing(), **times)
    assert parts == {"model": 0, "warm-up": 0.25}


@pytest.mark.parametrize(
    ("load", "shape"),
    [
        (lambda: load_classifier("squeezenet1_1", "none"), (2, 3, 224, 224)),
        (lambda: load_detector("ssdlite320_mobilenet_v3_large", "none"), (2, 3, 90, 160)),
    ],
    ids=["its own size", "that of the pictures"],
)
def test_warming_up_runs_one_batch_of_the_size_that_comes_and_changes_no_result(load, shape):
    loaded, seen = load(), []
    before = {key: value.clone() for key, value in loaded.module.state_dict().items()}
    loaded.module.register_forward_pre_hook(lambda module, given: seen.append(given[0].shape))
    model = prepare(lambda: loaded, PLAIN, batch_size=2, picture_size=(90, 160))
    assert seen == [shape]
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


@pytest.mark.parametrize(("module", "given", "words"), NOT_READY)
def test_a_model_that_cannot_be_made_ready_is_refused_with_what_to_change(module, given, words):
    with refused(words, error=BackendError):
        ready(module, **given)


def test_torch_compile_takes_a_model_whole():
    """In a fork: the compiler keeps threads."""

    def check():
        torch.set_num_threads(1)
        compiled = prepare(load, COMPILED, batch_size=2, compiler=whole)
        batch = torch.ones(2, 3, 224, 224)
        return compiled.run(batch) == load().run(batch)

    def load():
        return load_classifier("squeezenet1_1", "none")

    def whole(module):
        return torch.compile(module, backend="eager", fullgraph=True)

    assert in_a_fork(check, hang_seconds=300)


def test_the_compiler_is_that_of_torch():
    """It makes code when the module is first run, which is not done here: that takes long."""
    assert isinstance(compile_module(Mean()), torch._dynamo.OptimizedModule)


@needs_no_gpu
def test_a_device_that_is_not_there_is_refused_before_anything_is_loaded():
    def load():
        raise AssertionError("loaded")

    with pytest.raises(BackendError, match=r"PyTorch sees no CUDA device: .*; or use --device cpu"):
        prepare(load, Compute(device="cuda"), batch_size=1)


def test_a_short_batch_is_filled_up_and_what_the_filling_gives_is_cut_off():
    module = Recording()
    model = ready(module, COMPILED, 4, compiler=same)
    batch = torch.rand(3, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    assert model.run(batch) == tiny(Mean()).run(batch)
    assert {shape[0] for shape in module.shapes} == {4}


def test_a_full_batch_and_a_larger_one_go_through_as_they_are():
    fixed = FixedBatch(module := Recording(), 4)
    assert [fixed(torch.ones(n, 3, 2, 2)).shape for n in (4, 6)] == [(4, 3), (6, 3)]
    assert module.shapes == [(4, 3, 2, 2), (6, 3, 2, 2)]


def test_all_batches_have_the_layout_that_was_compiled_for():
    seen: list[tuple[int, ...]] = []
    strides = Applied(lambda module, batch: seen.append(batch.stride()) or batch)
    frames = torch.zeros(4, 5, 6, 3).permute(0, 3, 1, 2)
    fixed = FixedBatch(strides, 4)
    for batch in (frames, frames[:3], frames.contiguous()):
        fixed(batch)
    assert seen == [(90, 30, 6, 1)] * 3


def test_a_model_runs_on_the_cpu_in_full_precision_unless_asked_otherwise():
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


@pytest.mark.parametrize(("precision", "capabilities", "known"), NATIVE)
def test_a_precision_is_native_where_one_instruction_has_it(precision, capabilities, known):
    assert is_native(precision, capabilities) is known


def test_pytorch_tells_of_this_processor_by_the_names_that_are_asked():
    known = torch.cpu.get_capabilities()
    if known["architecture"] in ("x86_64", "arm64", "aarch64"):
        assert is_native("bfloat16") is not None
    assert is_native("bfloat16") is is_native("bfloat16", dict(known))


def test_emulation_is_said_where_a_part_of_the_model_runs_on_such_a_processor():
    short = Compute(precision="bfloat16")
    on_gpu = replace(short, device="cuda")
    for compute in (Compute(), Compute(device="cuda", precision="float16"), on_gpu):
        assert [emulation(compute, processor) for processor in (OLD, NEW, OTHER)] == [None] * 3
    for compute in (short, replace(on_gpu, split_layer="layer1")):
        said, *others = (emulation(compute, processor) for processor in (OLD, NEW, OTHER))
        assert said.startswith("this processor has no instructions for bfloat16, so PyTorch emul")
        assert ("\n" in said, others) == (False, [None, None])


def test_a_run_notes_it_when_it_is_asked_for(monkeypatch):
    amp = ComputeOptions(execution=ExecutionOptions(amp=True))
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: OLD)
    assert precision_notes(amp) == (emulation(Compute(precision="bfloat16"), OLD),)
    assert precision_notes(ComputeOptions()) == ()
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: NEW)
    assert precision_notes(amp) == ()
