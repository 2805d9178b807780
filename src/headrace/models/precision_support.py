"""Devices and precisions of this machine, and the threads of PyTorch operations."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import torch

from headrace.errors import BackendError
from headrace.models.compute import Compute, Precision
from headrace.runtime.cuda_diagnostics import explain_missing_gpu


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
