"""Capabilities of this machine: devices, native precisions, threads."""

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


def check_available(compute: Compute, asked: str = "device cuda") -> None:
    """Raise BackendError if this machine lacks the requested device or precision; `asked` names the
    request."""
    if compute.device == "cpu":
        return
    if not torch.cuda.is_available():
        raise BackendError(
            f"{asked} was asked for, and PyTorch sees no CUDA device: "
            f"{explain_missing_gpu()}; or use --device cpu"
        )
    if compute.precision == "bfloat16" and not torch.cuda.is_bf16_supported():
        raise BackendError(
            f"precision bfloat16 was asked for, and {torch.cuda.get_device_name()} has none; "
            "use float16"
        )


_INSTRUCTIONS: Final[dict[Precision, tuple[str, ...]]] = {
    "bfloat16": ("avx512_bf16", "amx_bf16", "avx10_2", "bf16", "sve_bf16"),
    "float16": ("avx512_fp16", "amx_fp16", "avx10_2", "fp16_arith"),
}
"""CPU features with instructions for a precision, as in `torch.cpu.get_capabilities`."""


def is_native(
    precision: Precision, capabilities: Mapping[str, object] | None = None
) -> bool | None:
    """Return whether this processor has instructions for a precision.

    Args:
        precision: Precision.
        capabilities: Features of another processor; None: this processor's.

    Returns:
        None if PyTorch does not know the processor's features.
    """
    known = torch.cpu.get_capabilities() if capabilities is None else capabilities
    names = _INSTRUCTIONS.get(precision)
    if names is None:
        return True
    support = [bool(known[name]) for name in names if name in known]
    return any(support) if support else None


def emulation(compute: Compute, capabilities: Mapping[str, object] | None = None) -> str | None:
    """Return a warning if the processor must emulate the precision of a model.

    None: native, or unknown. `capabilities`: see `is_native`.
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
    """Set the threads of PyTorch operations in the block, also for threads started in it; None:
    PyTorch's default.

    The setting is global to the process: blocks must not overlap.
    """
    if threads is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
