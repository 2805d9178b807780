"""A model made ready: on its device, in evaluation mode, compiled and warm."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Generic

import torch
from torch import nn
from torch._dynamo.utils import counters

from headrace.errors import BackendError, first_line
from headrace.models.compute import Compute
from headrace.models.model import Model, Result, channels_last
from headrace.models.precision_support import check_available
from headrace.models.split_model import SplitModule
from headrace.runtime.clock import SYSTEM_CLOCK, Clock

PICTURE_SIZE: Final = (480, 640)
"""(height, width) of pictures where nobody says otherwise; it counts where a model takes them as
they are."""

Compiler = Callable[[nn.Module], nn.Module]
"""Gives the module that runs in place of another: `compile_module`, or a test's own."""


@dataclass(frozen=True, kw_only=True)
class StartUp:
    """How long it took until a model was ready, by part."""

    load_seconds: float
    """To build it, read its weights and take it to its device."""
    compile_seconds: float
    """To compile it for the shape of the batches; 0 where it was not asked for."""
    warmup_seconds: float
    """To run the warm-up batches."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedModel(Generic[Result]):
    """A model that is ready, and what making it so cost."""

    model: Model[Result]
    startup: StartUp


def compile_module(module: nn.Module) -> nn.Module:
    """Return the module as torch.compile makes it; it is compiled when it is first run."""
    compiled: Any = torch.compile(module)
    return compiled


def prepare(
    load: Callable[[], Model[Result]],
    compute: Compute,
    *,
    batch_size: int,
    picture_size: tuple[int, int] = PICTURE_SIZE,
    clock: Clock = SYSTEM_CLOCK,
    compiler: Compiler = compile_module,
) -> PreparedModel[Result]:
    """Load a model, take it to its device, compile it and warm it up.

    ready = prepare(lambda: load_classifier("resnet50"), Compute(device="cuda"), batch_size=16)

    Args:
        load: Loads it. The model it returns is taken over: it moves to the device in place.
        compute: Where it will run and how.
        batch_size: Pictures or clips in the batches it will get.
        picture_size: (height, width) of these, for models that take pictures as they are.
        clock: Times it.
        compiler: What compiles it, where `compute` asks for it.

    Raises:
        ConfigError: as `load`; or a layer that was asked for gives nothing, or the model cannot be
            cut behind one.
        BackendError: the device or precision is missing, the model cannot be compiled here, or it
            cannot run with batches of this size.
    """
    check_available(compute)
    begun_ns = clock.now_ns()
    model = placed(load(), compute)
    shape = model.input.shape(batch_size, picture_size)
    loaded_ns = clock.now_ns()
    if compute.compile:
        model = _compiled(model, shape, compiler)
    compiled_ns = clock.now_ns()
    for _ in range(compute.warmup_batches):
        warm_up(model, shape)
    return PreparedModel(
        model=model,
        startup=StartUp(
            load_seconds=(loaded_ns - begun_ns) / 1e9,
            compile_seconds=(compiled_ns - loaded_ns) / 1e9 if compute.compile else 0.0,
            warmup_seconds=(clock.now_ns() - compiled_ns) / 1e9,
        ),
    )


def refitted(model: Model[Result], shape: tuple[int, ...]) -> Model[Result]:
    """Return a model that is ready, for batches of another shape: warm, and compiled if it was.

    Raises:
        BackendError: it cannot run there with batches of this size.
    """
    if isinstance(model.module, FixedBatch):
        fixed = FixedBatch(model.module.module, shape[0], model.module.layout)
        model = replace(model, module=fixed)
    warm_up(model, shape)
    return model


def warm_up(model: Model[Result], shape: tuple[int, ...]) -> None:
    """Run a model once on zeros, so that the first real batch does not pay for its set-up.

    Args:
        model: On its device.
        shape: Of the batches it will get.

    Raises:
        BackendError: the model cannot run there with batches of this size.
    """
    device, precision = model.compute.device, model.compute.precision
    try:
        model.run(torch.zeros(shape, device=model.compute.entry_device))
    except RuntimeError as error:
        how = "" if precision == "float32" else f" in {precision}"
        other = "" if precision == "float32" else ", float32"
        raise BackendError(
            f"{model.name} cannot run on {device}{how} with batches of {shape[0]}: "
            f"{first_line(error)}; use a smaller --batch-size{other} or another --device"
        ) from error


def not_compiled(model: Model[Any], batch_size: int, error: BaseException) -> BackendError:
    """Return the error that says that a model cannot be compiled, and why."""
    return BackendError(
        f"{model.name} cannot be compiled on {model.compute.device} for batches of {batch_size}: "
        f"{first_line(error)}; install what torch.compile needs (a C++ compiler such as g++; "
        "Triton on a GPU), use a smaller --batch-size, or leave out --enable-compile"
    )


def placed(model: Model[Result], compute: Compute) -> Model[Result]:
    """Return a model on its device, in the layout that was asked for; it is moved in place.

    Raises:
        BackendError: it does not fit there.
        ConfigError: it cannot be cut behind the layer that was named.
    """
    try:
        module = _on_devices(model.module, compute)
        if compute.channels_last:
            ndim = 4 if model.input.num_frames is None else 5
            module = module.to(memory_format=channels_last(ndim))
    except RuntimeError as error:
        raise BackendError(
            f"{model.name} does not fit on {compute.device}: {first_line(error)}; "
            "use a smaller model or another --device"
        ) from error
    return replace(model, module=module, compute=compute)


def _on_devices(module: nn.Module, compute: Compute) -> nn.Module:
    if compute.split_layer is None:
        return module.to(compute.device)
    split = SplitModule(module, compute.split_layer)
    split.place(compute.device)
    return split


def _compiled(model: Model[Result], shape: tuple[int, ...], compiler: Compiler) -> Model[Result]:
    # The compiler works when the module is first run.
    try:
        last = channels_last(len(shape))
        layout = last if model.compute.channels_last else torch.contiguous_format
        fixed = FixedBatch(compiler(model.module), shape[0], layout)
        compiled = replace(model, module=fixed)
        compiled.run(torch.zeros(shape, device=model.compute.device))
    except (RuntimeError, OSError) as error:
        raise not_compiled(model, shape[0], error) from error
    return compiled


class FixedBatch(nn.Module):
    """A module that gets batches of one size, one layout and one kind of tensor only.

    For any other torch.compile would make other code, in the middle of a run. Shorter batches are
    filled up with zeros, and what these give is cut off; larger ones keep their size. All are
    copied: preprocessing gives them with the channels last, and as tensors of another kind than
    those that are made in inference mode.
    """

    def __init__(
        self,
        module: nn.Module,
        batch_size: int,
        layout: torch.memory_format = torch.contiguous_format,
    ) -> None:
        """Run `module` on batches of `batch_size`, along their first dimension, in a layout."""
        super().__init__()
        self.training = module.training
        self.module = module
        self.batch_size = batch_size
        self.layout = layout

    def forward(self, batch: torch.Tensor) -> Any:
        """Return what the module gives for `batch`, [N, ...]."""
        count = len(batch)
        if count >= self.batch_size:
            return self.module(batch.clone(memory_format=self.layout))
        zeros = batch.new_zeros(self.batch_size - count, *batch.shape[1:])
        filled = torch.cat([batch, zeros]).clone(memory_format=self.layout)
        return _first(self.module(filled), count)


def _first(output: Any, count: int) -> Any:
    if isinstance(output, Mapping):
        return {name: _first(value, count) for name, value in output.items()}
    return output[:count]


def cache_hits() -> int:
    """Return how many graphs this process took from PyTorch's cache so far.

    Source: "Compile Time Caching in torch.compile", PyTorch's tutorials, which ask these counters.
    """
    return int(counters["inductor"]["fxgraph_cache_hit"])
