"""A loaded model: its input, run and output; moved to its device, compiled, warmed up."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, TypeVar

import torch
from torch import nn

from headrace.errors import BackendError, first_line
from headrace.models.compute import Compute
from headrace.models.device import autocast_dtype, check_available
from headrace.models.split_model import SplitModule
from headrace.preprocess.spec import InputSpec
from headrace.runtime.clock import SYSTEM_CLOCK, Clock

Result = TypeVar("Result")
"""Result of a model: `Labels`, `Boxes`, or a custom type."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Model(Generic[Result]):
    """Loaded model. Not thread-safe: runs one batch at a time."""

    name: str
    """torchvision's name."""
    module: nn.Module
    """In evaluation mode, on `compute.device`."""
    input: InputSpec
    output: Callable[[Any], Result]
    """Converts the output of `module` to the result."""
    origin: str
    """Origin of the weights, for the record."""
    compute: Compute = field(default_factory=Compute)
    """Device and settings, set by `prepare`."""

    @property
    def num_parameters(self) -> int:
        """Number of parameters, without buffers such as running means."""
        return sum(weights.numel() for weights in self.module.parameters())

    def run(self, batch: torch.Tensor) -> Result:
        """Run the model on a batch, and wait for the result.

        Args:
            batch: Preprocessed batch, float32 [N, 3, H, W] or, for clips, [N, 3, T, H, W], on
                `compute.entry_device`.

        Returns:
            The result, on the CPU.
        """
        with self.computing():
            return self.output(self.module(batch))

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Run the block as `run` does: without gradients, in the chosen precision."""
        compute = self.compute
        with ExitStack() as stack:
            stack.enter_context(torch.inference_mode())
            if compute.precision != "float32":
                for device in {compute.device, compute.entry_device}:
                    stack.enter_context(torch.autocast(device, dtype=autocast_dtype(compute)))
            yield


FRAME_SIZE: Final = (480, 640)
"""Default (height, width) of frames, in pixels, for models of any input size."""

Compiler = Callable[[nn.Module], nn.Module]
"""Returns the compiled form of a module: `compile_module`, or a fake in tests."""


def compile_module(module: nn.Module) -> nn.Module:
    """Return the module wrapped by torch.compile, which compiles it in its first run."""
    compiled: Any = torch.compile(module)
    return compiled


def prepare(
    load: Callable[[], Model[Result]],
    compute: Compute,
    *,
    batch_size: int,
    frame_size: tuple[int, int] = FRAME_SIZE,
    clock: Clock = SYSTEM_CLOCK,
    compiler: Compiler = compile_module,
    on_part: Callable[[str, float], object] = lambda name, seconds: None,
) -> Model[Result]:
    """Load a model, move it to its device, compile it and warm it up.

    model = prepare(lambda: load_classifier("resnet50"), Compute(device="cuda"), batch_size=16)

    Args:
        load: Returns the model; it is moved in place.
        compute: Device and settings.
        batch_size: Images or clips per batch.
        frame_size: (height, width) of the frames, for models of any input size.
        clock: Clock for the timings.
        compiler: Compiles the model if `compute.compile` is set.
        on_part: Called after each part with its name and seconds: `model` (build, read weights,
            move to the device), `compile` if requested, `warm-up`.

    Raises:
        ConfigError: see `load`; or the model cannot be split after `compute.split_layer`.
        BackendError: the device or precision is not available, or the model cannot be compiled or
            cannot run batches of this size.
    """
    check_available(compute)
    start_ns = clock.now_ns()

    def end_part(name: str) -> None:
        nonlocal start_ns
        now_ns = clock.now_ns()
        on_part(name, (now_ns - start_ns) / 1e9)
        start_ns = now_ns

    model = place_model(load(), compute)
    shape = model.input.shape(batch_size, frame_size)
    end_part("model")
    if compute.compile:
        model = _compiled(model, shape, compiler)
        end_part("compile")
    warm_up(model, shape)
    end_part("warm-up")
    return model


def fit_to_shape(model: Model[Result], shape: tuple[int, ...]) -> Model[Result]:
    """Return a prepared model for batches of another shape: warm; compiled if it was compiled.

    Raises:
        BackendError: the model cannot run batches of this size on its device.
    """
    if isinstance(model.module, FixedBatch):
        model = replace(model, module=FixedBatch(model.module.module, shape[0]))
    warm_up(model, shape)
    return model


def warm_up(model: Model[Result], shape: tuple[int, ...]) -> None:
    """Run a model once on zeros: its first run is slow.

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
        is_full = precision == "float32"
        how, other = ("", "") if is_full else (f" in {precision}", ", float32")
        raise BackendError(
            f"{model.name} cannot run on {device}{how} with batches of {shape[0]}: "
            f"{first_line(error)}; use a smaller --batch-size{other} or another --device"
        ) from error


def compile_error(model: Model[Any], batch_size: int, error: BaseException) -> BackendError:
    """Return the error for a model that cannot be compiled."""
    return BackendError(
        f"{model.name} cannot be compiled on {model.compute.device} for batches of {batch_size}: "
        f"{first_line(error)}; install the requirements of torch.compile (a C++ compiler "
        "such as g++; on a GPU, Triton), use a smaller --batch-size, or leave out --enable-compile"
    )


def place_model(model: Model[Result], compute: Compute) -> Model[Result]:
    """Move a model to its device, in place; split it if requested.

    Raises:
        BackendError: the model does not fit on the device.
        ConfigError: the model cannot be split after `compute.split_layer`.
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
        raise compile_error(model, shape[0], error) from error
    return compiled


class FixedBatch(nn.Module):
    """Wrapper that calls a module with contiguous inference tensors of one batch size.

    Any other batch would trigger a recompilation during the run. Shorter batches are padded with
    zeros, and their output is cut; larger batches keep their size. Every batch is copied, because
    preprocessing returns channels-last tensors that are not inference tensors.
    """

    def __init__(self, module: nn.Module, batch_size: int) -> None:
        """Wrap `module`; batches have `batch_size` entries along their first dimension."""
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
