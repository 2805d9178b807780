"""Devices: whether one is available, with its precision; transfer to it; and its memory."""

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.decode.gpu.gpu_decoding import IDLE_CODECS
from headrace.errors import BackendError, ConfigError, in_one_line
from headrace.models.compute import Compute, Device, Precision
from headrace.runtime.cuda_diagnostics import explain_missing_gpu

Copy = Callable[[torch.Tensor, Device], torch.Tensor]
"""Returns the tensor on the device: the same tensor if it is already there."""


def copy_to(tensor: torch.Tensor, device: Device) -> torch.Tensor:
    """Return the tensor on the device. Copies from pageable memory; blocks."""
    return tensor.to(device)


def copy_for(device: Device) -> Copy:
    """Return the fastest copy function for a thread that copies batch after batch."""
    return copy_to if device == "cpu" else PinnedCopy()


def transfer(
    data: torch.Tensor | NDArray[np.uint8], device: Device, *, copy: Copy = copy_to
) -> torch.Tensor:
    """Return a tensor on a device, without a copy if it is already there.

    Call it either on frames before preprocessing (uint8), which then runs on the device, or on
    batches after preprocessing (float32, four times the bytes).

    Args:
        data: Tensor, or array on the CPU.
        device: Target device.
        copy: Copy function.
    """
    tensor = torch.from_numpy(data) if isinstance(data, np.ndarray) else data
    return copy(tensor, device)


class CopyStream:
    """CUDA stream for copies concurrent with other streams. For one thread.

    Each transfer first copies into page-locked memory, which PyTorch reuses.
    """

    def __init__(self, device: torch.device | str = "cuda") -> None:
        """Prepare the stream; it is created with the first copy."""
        self._device = torch.device(device)
        self._stream: torch.cuda.Stream | None = None

    def mark(self) -> torch.cuda.Event:
        """Return an event after all pending work of the caller's current stream."""
        return _event(torch.cuda.current_stream(self._device))

    def begin(self, tensors: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], torch.cuda.Event]:
        """Start copies of CPU tensors; return the GPU tensors and the event of their completion.

        Their memory belongs to this stream; `hand_over` or `record_stream` marks its use on
        another stream.
        """
        stream = self._stream = self._stream or torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        pinned = [tensor.pin_memory() for tensor in tensors]
        with torch.cuda.stream(stream):
            moved = [tensor.to(self._device, non_blocking=True) for tensor in pinned]
        return moved, _event(stream)

    def hand_over(self, tensors: Sequence[torch.Tensor], copied: torch.cuda.Event) -> None:
        """Make the caller's current stream wait for a copy; return at once.

        Memory of the tensors is reused only after the current stream's work on them.
        """
        current = torch.cuda.current_stream(self._device)
        current.wait_event(copied)
        for tensor in tensors:
            tensor.record_stream(current)


class PinnedCopy:
    """Copies tensors to a GPU while the model works on the previous batch: a `Copy`.

    A copy from pageable memory on the model's stream would wait for the model. For one thread; the
    model runs on the default stream.
    """

    def __init__(self) -> None:
        """Prepare the stream; it is created with the first copy."""
        self._stream = CopyStream()

    def __call__(self, tensor: torch.Tensor, device: Device) -> torch.Tensor:
        """Return the tensor on the GPU, completely copied: the same tensor if it is there."""
        if tensor.device.type == device:
            return tensor
        [moved], copied = self._stream.begin([tensor])
        # The memory belongs to the copy stream and must not be reused while the model uses it.
        moved.record_stream(torch.cuda.default_stream())
        copied.synchronize()
        return moved


def _event(stream: torch.cuda.Stream) -> torch.cuda.Event:
    # Blocking: a waiting thread does not spin.
    event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
    event.record(stream)
    return event


def autocast_dtype(compute: Compute) -> torch.dtype:
    """Return the dtype of autocast."""
    dtype: torch.dtype = getattr(torch, compute.precision)
    return dtype


def check_available(compute: Compute, request: str = "device cuda") -> None:
    """Raise BackendError if this machine lacks the device or precision of an option, `request`."""
    if compute.device == "cpu":
        return
    if not torch.cuda.is_available():
        raise BackendError(
            f"{request} needs a GPU, and PyTorch sees no CUDA device: "
            f"{explain_missing_gpu()}; or use --device cpu"
        )
    if compute.precision == "bfloat16" and not torch.cuda.is_bf16_supported():
        raise BackendError(
            f"{torch.cuda.get_device_name()} does not support precision bfloat16; use float16"
        )


_INSTRUCTIONS: Final[dict[Precision, tuple[str, ...]]] = {
    "bfloat16": ("avx512_bf16", "amx_bf16", "avx10_2", "bf16", "sve_bf16"),
    "float16": ("avx512_fp16", "amx_fp16", "avx10_2", "fp16_arith"),
}
"""Precision → CPU features with instructions for it, as in `torch.cpu.get_capabilities`."""


def is_native(
    precision: Precision, capabilities: Mapping[str, object] | None = None
) -> bool | None:
    """Return whether a processor has instructions for a precision; None: PyTorch does not know.

    Args:
        precision: Precision.
        capabilities: Features of the processor; None: this machine's.
    """
    known = torch.cpu.get_capabilities() if capabilities is None else capabilities
    names = _INSTRUCTIONS.get(precision)
    if names is None:
        return True
    support = [bool(known[name]) for name in names if name in known]
    return any(support) if support else None


def emulation(compute: Compute, capabilities: Mapping[str, object] | None = None) -> str | None:
    """Return a warning if the processor emulates the precision; None: it is native, or unknown.

    `capabilities`: see `is_native`.
    """
    on_cpu = "cpu" in (compute.device, compute.entry_device)
    if not on_cpu or is_native(compute.precision, capabilities) is not False:
        return None
    return (
        f"this processor has no instructions for {compute.precision}, so PyTorch emulates it: "
        "expect it to be slower than float32; --use-amp is for processors that have them "
        "(AVX-512 BF16, AMX, Arm BF16) and for GPUs"
    )


@contextmanager
def operation_threads(threads: int | None) -> Iterator[None]:
    """Set the threads per PyTorch operation in the block, for the whole process.

    None: PyTorch's default. Blocks must not overlap.
    """
    if threads is None:
        yield
        return
    previous = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(previous)


def is_out_of_memory(error: BaseException | None) -> bool:
    """Return whether an error is a failed memory allocation of PyTorch or Python."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


def release_memory() -> None:
    """Free the memory of a failed attempt, before a smaller one."""
    gc.collect()
    IDLE_CODECS.clear()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


@contextmanager
def fitting_memory(name: str) -> Iterator[None]:
    """Turn out-of-memory errors of the block into a BackendError that names the model.

    Raises:
        BackendError: memory ran out.
    """
    try:
        yield
    except (RuntimeError, MemoryError, ConfigError) as error:
        causes = [cause for cause in (error, error.__cause__) if is_out_of_memory(cause)]
        if not causes:
            raise
        reason = in_one_line(str(causes[0])) or "no memory is left"
        raise BackendError(
            f"{name} does not fit into the memory of this machine: {reason}; use a smaller model, "
            "or close other programs"
        ) from causes[0]
