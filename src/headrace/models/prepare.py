"""Preparation of a model: on its device, in evaluation mode, compiled and warm."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import torch
from torch import nn

from headrace.errors import BackendError, first_line
from headrace.models.compute import Compute
from headrace.models.model import Model, Result
from headrace.models.precision_support import check_available
from headrace.models.split_model import SplitModule
from headrace.runtime.clock import SYSTEM_CLOCK, Clock

PICTURE_SIZE: Final = (480, 640)
"""Default (height, width) of images, for models that take any size."""

Compiler = Callable[[nn.Module], nn.Module]
"""Function from a module to its compiled module: `compile_module`, or a fake in tests."""


def compile_module(module: nn.Module) -> nn.Module:
    """Return the module wrapped by torch.compile; it is compiled in its first run."""
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
    on_part: Callable[[str, float], object] = lambda name, seconds: None,
) -> Model[Result]:
    """Load a model, move it to its device, compile it and warm it up.

    model = prepare(lambda: load_classifier("resnet50"), Compute(device="cuda"), batch_size=16)

    Args:
        load: Returns the model, which is moved to the device in place.
        compute: Device and settings.
        batch_size: Images or clips per batch.
        picture_size: (height, width) of the images, for models that take any size.
        clock: Clock for the timings.
        compiler: Compiles the model if `compute.compile` is set.
        on_part: Called after each part with its name and seconds: `model` (building, reading
            weights, moving to the device), `compile` if it is compiled, `warm-up`.

    Raises:
        ConfigError: as `load`; or a requested layer returns nothing, or the model cannot be split
            after `compute.split_layer`.
        BackendError: the device or precision is not available, the model cannot be compiled, or it
            cannot run batches of this size.
    """
    check_available(compute)
    begun_ns = clock.now_ns()

    def end_part(name: str) -> None:
        nonlocal begun_ns
        now_ns = clock.now_ns()
        on_part(name, (now_ns - begun_ns) / 1e9)
        begun_ns = now_ns

    model = placed(load(), compute)
    shape = model.input.shape(batch_size, picture_size)
    end_part("model")
    if compute.compile:
        model = _compiled(model, shape, compiler)
        end_part("compile")
    warm_up(model, shape)
    end_part("warm-up")
    return model


def refitted(model: Model[Result], shape: tuple[int, ...]) -> Model[Result]:
    """Return a prepared model for batches of another shape: warm, and compiled if it was.

    Raises:
        BackendError: the model cannot run batches of this size on its device.
    """
    if isinstance(model.module, FixedBatch):
        model = replace(model, module=FixedBatch(model.module.module, shape[0]))
    warm_up(model, shape)
    return model


def warm_up(model: Model[Result], shape: tuple[int, ...]) -> None:
    """Run a model once on zeros, to set it up before the first real batch.

    Args:
        model: Model on its device.
        shape: Shape of later batches.

    Raises:
        BackendError: the model cannot run batches of this size on its device.
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
    """Return the error for a model that cannot be compiled."""
    return BackendError(
        f"{model.name} cannot be compiled on {model.compute.device} for batches of {batch_size}: "
        f"{first_line(error)}; install what torch.compile needs (a C++ compiler such as g++; "
        "Triton on a GPU), use a smaller --batch-size, or leave out --enable-compile"
    )


def placed(model: Model[Result], compute: Compute) -> Model[Result]:
    """Return a model on its device; it is moved in place.

    Raises:
        BackendError: the model does not fit on the device.
        ConfigError: the model cannot be split after the named layer.
    """
    try:
        if compute.split_layer is None:
            module: nn.Module = model.module.to(compute.device)
        else:
            module = SplitModule(model.module, compute.split_layer)
            module.place(compute.device)
    except RuntimeError as error:
        raise BackendError(
            f"{model.name} does not fit on {compute.device}: {first_line(error)}; "
            "use a smaller model or another --device"
        ) from error
    return replace(model, module=module, compute=compute)


def _compiled(model: Model[Result], shape: tuple[int, ...], compiler: Compiler) -> Model[Result]:
    # The module is compiled in its first run.
    try:
        compiled = replace(model, module=FixedBatch(compiler(model.module), shape[0]))
        compiled.run(torch.zeros(shape, device=model.compute.device))
    except (RuntimeError, OSError) as error:
        raise not_compiled(model, shape[0], error) from error
    return compiled


class FixedBatch(nn.Module):
    """Wrapper that calls a module with contiguous batches of one size and kind of tensor.

    Other batches would trigger a recompilation in the middle of a run. Shorter batches are padded
    with zeros, and their output is cut; larger batches keep their size. All batches are copied,
    because preprocessing returns channels-last tensors that are not inference tensors.
    """

    def __init__(self, module: nn.Module, batch_size: int) -> None:
        """Run `module` on batches of `batch_size`, along their first dimension."""
        super().__init__()
        self.training = module.training
        self.module = module
        self.batch_size = batch_size

    def forward(self, batch: torch.Tensor) -> Any:
        """Return the output of the module for `batch`, [N, ...]."""
        count = len(batch)
        if count < self.batch_size:
            zeros = batch.new_zeros(self.batch_size - count, *batch.shape[1:])
            batch = torch.cat([batch, zeros])
        return self.module(batch.clone(memory_format=torch.contiguous_format))[:count]
