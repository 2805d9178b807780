"""Whether PyTorch can compute here what was asked for, and in which dtype."""

import torch

from headrace.errors import BackendError
from headrace.models.compute import Compute
from headrace.runtime.gpus import why_no_gpu


def autocast_dtype(compute: Compute) -> torch.dtype:
    """Return the dtype that autocast computes in, where it does."""
    dtype: torch.dtype = getattr(torch, compute.precision)
    return dtype


def check_available(compute: Compute, asked: str = "device cuda") -> None:
    """Raise BackendError where this machine has not what was asked for, in the words of `asked`."""
    if compute.device == "cpu":
        return
    if not torch.cuda.is_available():
        raise BackendError(
            f"{asked} was asked for, and PyTorch sees no CUDA device: {why_no_gpu()}; or use "
            "--device cpu"
        )
    if compute.precision == "bfloat16" and not torch.cuda.is_bf16_supported():
        raise BackendError(
            f"precision bfloat16 was asked for, and {torch.cuda.get_device_name()} has none; "
            "use float16"
        )
