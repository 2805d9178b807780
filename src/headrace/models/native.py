"""Whether a processor computes in the precision that was asked for, or has it emulated."""

from collections.abc import Mapping
from typing import Final

import torch

from headrace.models.compute import Compute
from headrace.models.precision import Precision

_INSTRUCTIONS: Final[dict[Precision, tuple[str, ...]]] = {
    "bfloat16": ("avx512_bf16", "amx_bf16", "avx10_2", "bf16", "sve_bf16"),
    "float16": ("avx512_fp16", "amx_fp16", "avx10_2", "fp16_arith"),
}
"""Those that multiply such numbers, as `torch.cpu.get_capabilities` names them."""


def is_native(
    precision: Precision, capabilities: Mapping[str, object] | None = None
) -> bool | None:
    """Return whether this processor has instructions for a precision.

    Args:
        precision: Which.
        capabilities: Those of another processor; None asks PyTorch about this one.

    Returns:
        None where PyTorch tells nothing of such a processor.
    """
    known = torch.cpu.get_capabilities() if capabilities is None else capabilities
    names = _INSTRUCTIONS.get(precision)
    if names is None:
        return True
    told = [bool(known[name]) for name in names if name in known]
    return any(told) if told else None


def emulation(compute: Compute, capabilities: Mapping[str, object] | None = None) -> str | None:
    """Return a sentence where a model computes on a processor that must emulate its precision.

    None where it does not, or where that is not known. `capabilities` is that of `is_native`.
    """
    on_cpu = "cpu" in (compute.device, compute.entry_device)
    if not on_cpu or is_native(compute.precision, capabilities) is not False:
        return None
    return (
        f"this processor has no instructions for {compute.precision}, so PyTorch emulates it: "
        "expect it to be slower than float32; --use-amp is for processors that have them "
        "(AVX-512 BF16, AMX, Arm BF16) and for GPUs"
    )
